"""The scale stops at 1. A model whose gradients are too large even unscaled would overflow at every step from then
on, and never update again. Below 1 the scale makes them smaller, which is then what they need."""

EXERCISE = "update_scale"
FAILS = ("update_scale/backs-off",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=2000):
    if not finite:
        return max(1.0, scale * 0.5), 0
    if good_steps + 1 == growth_interval:
        return scale * 2.0, 0
    return scale, good_steps + 1
