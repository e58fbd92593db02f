"""The function returns at the first gradient that is not finite. The ones after it keep their scale, and whoever
logs their norms or adds up micro-batches sees two kinds of gradients. Note the verdict, and go on."""

EXERCISE = "unscale"
FAILS = ("unscale/all",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.div_(scale)
            if not parameter.grad.isfinite().all():
                return False
    return True
