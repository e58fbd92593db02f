"""The scale only ever falls. One bad batch costs a factor of 2 for the rest of the run, and after a few of them
small gradients are lost as if there were no scaler. A scale has to find its way back up."""

EXERCISE = "update_scale"
FAILS = ("update_scale/grows",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=2000):
    if not finite:
        return scale * 0.5, 0
    return scale, good_steps + 1
