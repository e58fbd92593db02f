"""The norm of all gradients is tested. It squares the numbers, and the square of a finite number can be inf. Large
gradients are what clipping is for; skipping is for those that are no numbers any more."""

import torch

EXERCISE = "unscale"
FAILS = ("unscale/large",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    for gradient in gradients:
        gradient.div_(scale)
    return bool(torch.nn.utils.get_total_norm(gradients).isfinite())
