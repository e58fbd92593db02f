"""A gradient counts as finite if any of its numbers is. One inf among a million is enough to spoil the weights: all
of them have to be finite."""

EXERCISE = "unscale"
FAILS = ("unscale/finite",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.div_(scale)
            finite = finite and bool(parameter.grad.isfinite().any())
    return finite
