"""The quotient is upside down. What is done again keeps the hardware busier than the model needs it, so HFU is never
below MFU."""

EXERCISE = "utilization"
FAILS = ("utilization/hfu",)
READ = "handbook/profiling-and-roofline.md#mfu-and-hfu"


def hfu(model_utilization, recomputed):
    return model_utilization * 3 / (3 + recomputed)
