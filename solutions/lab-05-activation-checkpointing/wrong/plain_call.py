"""The function is called as it is. Everything is right except the one thing that was asked for: autograd keeps all
activations, and the block runs once."""

EXERCISE = "checkpoint"
FAILS = ("checkpoint/autocast", "checkpoint/frozen", "checkpoint/memory")
READ = "handbook/memory.md#recompute-what-and-when"


def checkpoint(function, *inputs):
    return function(*inputs)
