"""The count is compared before the step at hand is counted, so the scale doubles one good step too late. The step
that completes the interval is the one that doubles it."""

EXERCISE = "update_scale"
FAILS = ("update_scale/grows",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=2000):
    if not finite:
        return scale * 0.5, 0
    if good_steps == growth_interval:
        return scale * 2.0, 0
    return scale, good_steps + 1
