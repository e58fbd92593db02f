"""A forward pass done again is added as if it were a whole step. It is one unit of three: backward takes the other
two."""

EXERCISE = "utilization"
FAILS = ("utilization/hfu",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def hfu(model_utilization, recomputed):
    return model_utilization * (1 + recomputed)
