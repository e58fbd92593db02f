"""The numbers are dealt out in turn: rank r gets number r, r + N and so on. Sizes come out right, but an all-gather
lays parts end to end, so that the whole would come back shuffled."""

EXERCISE = "flat"
FAILS = ("flat/cut",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def cut(whole, rank, ranks):
    mine = whole.detach().flatten()[rank::ranks]
    part = whole.new_zeros(-(-whole.numel() // ranks))
    part[: mine.numel()] = mine
    return part
