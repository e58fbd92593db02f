"""Only the first gradient is looked at. That is the embedding's, where backward ends, so an overflow often reaches
it; but one that begins in a weight's own gradient does not."""

EXERCISE = "unscale"
FAILS = ("unscale/finite",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    finite = None
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.div_(scale)
            if finite is None:
                finite = bool(parameter.grad.isfinite().all())
    return finite is not False
