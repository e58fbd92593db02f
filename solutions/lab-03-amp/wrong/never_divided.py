"""The gradients are looked at and not divided. The optimizer gets them 65,536 times too large: SGD jumps, clipping
cuts every step to its limit, and AdamW hides both."""

EXERCISE = "unscale"
FAILS = ("unscale/divides",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            finite = finite and bool(parameter.grad.isfinite().all())
    return finite
