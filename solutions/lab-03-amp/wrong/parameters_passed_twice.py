"""Two loops over `parameters`: one looks, one divides. But model.parameters() is a generator and passes once; the
second loop sees nothing, and the optimizer gets gradients that are 65,536 times too large. Do both in one loop, or
make a list first."""

EXERCISE = "unscale"
FAILS = ("unscale/divides",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    finite = all(bool(one.grad.isfinite().all()) for one in parameters if one.grad is not None)
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.div_(scale)
    return finite
