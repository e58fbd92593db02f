"""The gradients are multiplied by the scale a second time instead of divided. Backward has multiplied them already,
because the loss was."""

EXERCISE = "unscale"
FAILS = ("unscale/divides",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(scale)
            finite = finite and bool(parameter.grad.isfinite().all())
    return finite
