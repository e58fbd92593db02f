"""4/3 is what recomputing the whole forward pass costs. Who recomputes a part, or nothing, executes less: (3 + r)/3 for
a share r of the forward."""

EXERCISE = "utilization"
FAILS = ("utilization/hfu",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def hfu(model_utilization, recomputed):
    return model_utilization * 4 / 3
