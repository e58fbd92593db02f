"""p.grad = p.grad / scale makes new tensors: for a moment there are two sets of gradients in memory, and whoever
holds on to the old ones (DDP's buckets are such) still sees scaled numbers. div_ divides what is there."""

EXERCISE = "unscale"
FAILS = ("unscale/in-place",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = parameter.grad / scale
            finite = finite and bool(parameter.grad.isfinite().all())
    return finite
