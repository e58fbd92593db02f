"""One sum over all gradients is tested. It does become inf or nan if any number is, but it also overflows by
itself: finite numbers can add up to inf. Then good steps are skipped. Test the numbers, or a sum of zeros made of
them (0 * g)."""

import torch

EXERCISE = "unscale"
FAILS = ("unscale/large",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    total = 0.0
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.div_(scale)
            total = total + parameter.grad.sum()
    return bool(torch.as_tensor(total).isfinite())
