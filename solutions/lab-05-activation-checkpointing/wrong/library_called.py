"""PyTorch's own checkpoint is called. It is right, and on the job it is what you should call. Here it would prove
that you can import: what a second run needs is what these three functions are to show."""

import torch.utils.checkpoint

EXERCISE = "checkpoint"
FAILS = (
    "checkpoint/gradients",
    "checkpoint/memory",
    "checkpoint/frozen",
    "checkpoint/saved",
    "checkpoint/autocast",
)
READ = "handbook/memory.md#what-the-second-run-needs"


def checkpoint(function, *inputs):
    return torch.utils.checkpoint.checkpoint(function, *inputs, use_reentrant=False)
