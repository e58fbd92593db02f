"""An overflow doubles the scale and success lowers it. It is the other way round: an overflow says that scaled
gradients are too large for fp16, so the scale has to fall."""

EXERCISE = "update_scale"
FAILS = (
    "update_scale/backs-off",
    "update_scale/grows",
)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=2000):
    if not finite:
        return scale * 2.0, 0
    if good_steps + 1 == growth_interval:
        return scale * 0.5, 0
    return scale, good_steps + 1
