"""The part is made by new_empty, and what was in that memory before stays behind the last number. It is no number
of the whole, but it is there: in a norm, in the optimizer's state, in a file. Here it shows as the last number,
repeated."""

EXERCISE = "flat"
FAILS = ("flat/cut",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def cut(whole, rank, ranks):
    size = -(-whole.numel() // ranks)
    mine = whole.detach().flatten()[rank * size : (rank + 1) * size]
    part = whole.new_full((size,), whole.detach().flatten()[-1].item())
    part[: mine.numel()] = mine
    return part
