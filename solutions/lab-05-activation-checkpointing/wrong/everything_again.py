"""`keep` is not looked at: everything runs again. That is full recomputation, with the matrix products, which are
nearly all of the FLOPs, done twice."""

from exercises import checkpoint

EXERCISE = "checkpoint_selective"
FAILS = (
    "checkpoint_selective/runs",
    "checkpoint_selective/memory",
)
READ = "handbook/memory.md#keep-what-is-dear"


def checkpoint_selective(function, *inputs, keep):
    return checkpoint(function, *inputs)
