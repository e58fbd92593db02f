"""The largest number of each gradient is compared with inf. That overlooks -inf, which is the smallest, and half of
all overflows are negative."""

EXERCISE = "unscale"
FAILS = ("unscale/finite",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def unscale(parameters, scale):
    finite = True
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.div_(scale)
            largest = float(parameter.grad.max())
            finite = finite and largest == largest and largest != float("inf")
    return finite
