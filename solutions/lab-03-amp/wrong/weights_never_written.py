"""The masters are updated and never copied into the model. The optimizer walks, its state looks healthy, and the
model stays where it was."""

from torch import nn

EXERCISE = "master_weights"
FAILS = ("master_weights/step",)
READ = "handbook/precision.md#where-each-number-wants-which-format"


def make_masters(model):
    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]


def master_step(model, masters, optimizer):
    for parameter, master in zip(model.parameters(), masters, strict=True):
        master.grad = None if parameter.grad is None else parameter.grad.float()
    optimizer.step()
