"""The verdict on each gradient overwrites the one before, so that only the last one counts. A verdict over all of
them is an `and`."""

EXERCISE = "unscale"
FAILS = ("unscale/finite",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.div_(scale)
            finite = bool(parameter.grad.isfinite().all())
    return finite
