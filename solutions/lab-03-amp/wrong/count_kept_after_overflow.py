"""An overflow halves the scale, but the count of good steps goes on. The scale then grows soon after it has just
been found too large, and overflows again. The interval is one of good steps in a row."""

EXERCISE = "update_scale"
FAILS = ("update_scale/counts-anew",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=2000):
    if not finite:
        return scale * 0.5, good_steps
    if good_steps + 1 == growth_interval:
        return scale * 2.0, 0
    return scale, good_steps + 1
