"""P // N rounds down, so that N parts hold fewer than P numbers and the last few belong to nobody. They would never
be updated, and not be saved. Round up, and fill."""

EXERCISE = "flat"
FAILS = ("flat/cut",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def cut(whole, rank, ranks):
    size = whole.numel() // ranks
    mine = whole.detach().flatten()[rank * size : (rank + 1) * size]
    part = whole.new_zeros(size)
    part[: mine.numel()] = mine
    return part
