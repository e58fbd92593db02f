"""The parameters are divided, not their gradients. After one step the model is gone: each weight is 65,536 times
smaller."""

EXERCISE = "unscale"
FAILS = ("unscale/divides",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.data.div_(scale)
            finite = finite and bool(parameter.grad.isfinite().all())
    return finite
