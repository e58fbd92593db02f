"""Only inf is looked for. An overflow in the middle of backward often arrives as nan, from inf - inf or 0 * inf,
and isinf says False to it. The update then writes nan into the weights, and no later step can mend them."""

EXERCISE = "unscale"
FAILS = ("unscale/finite",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.div_(scale)
            finite = finite and not bool(parameter.grad.isinf().any())
    return finite
