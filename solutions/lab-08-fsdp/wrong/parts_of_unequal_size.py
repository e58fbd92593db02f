"""The parts differ in size by one, without fill. An all-gather into one tensor and a reduce-scatter want the same
size from every rank, and with other sizes they fail, or hang."""

EXERCISE = "flat"
FAILS = ("flat/cut",)
READ = "handbook/sharding-and-zero.md#an-all-reduce-is-two-halves"


def cut(whole, rank, ranks):
    return whole.detach().flatten().tensor_split(ranks)[rank].clone()
