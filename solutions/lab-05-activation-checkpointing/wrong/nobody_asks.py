"""Nothing is handed to Recompute.apply that asks for a gradient when the input does not. Behind a frozen embedding
autograd then leaves the node out, and the weights inside never get a gradient. The loss simply stops falling."""

import torch
from exercises import Recompute

EXERCISE = "checkpoint"
FAILS = ("checkpoint/frozen",)
READ = "labs/lab-05-activation-checkpointing.md#break-it"


def checkpoint(function, *inputs):
    return Recompute.apply(function, torch.empty(0), *inputs)
