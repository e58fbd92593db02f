"""The default interval is 100. Each growth past the largest scale that works costs a skipped step. At 2000 that is
one step in 2,000; at 100 it is one in a hundred."""

EXERCISE = "update_scale"
FAILS = ("update_scale/default",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=100):
    if not finite:
        return scale * 0.5, 0
    if good_steps + 1 == growth_interval:
        return scale * 2.0, 0
    return scale, good_steps + 1
