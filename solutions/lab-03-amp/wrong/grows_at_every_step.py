"""Once the interval is reached the scale doubles at every good step, because the count is compared with >= and
never set back. The scale climbs until it overflows, and every few steps one is thrown away."""

EXERCISE = "update_scale"
FAILS = ("update_scale/grows",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=2000):
    if not finite:
        return scale * 0.5, 0
    if good_steps + 1 >= growth_interval:
        return scale * 2.0, good_steps + 1
    return scale, good_steps + 1
