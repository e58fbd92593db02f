"""The parts differ in size by one, without fill. An all-gather into one tensor and a reduce-scatter want the same
size from every rank, and with other sizes they fail, or hang."""

EXERCISE = "flat"
FAILS = ("flat/cut",)
READ = "labs/lab-08-fsdp.md#mental-model"


def cut(whole, rank, ranks):
    return whole.detach().flatten().tensor_split(ranks)[rank].clone()
