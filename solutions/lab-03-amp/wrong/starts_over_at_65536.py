"""An overflow sets the scale back to where it started. If 65,536 is too large, the next step overflows with it
again, and so does every one after that: the run stands still and its loss looks like a plateau."""

EXERCISE = "update_scale"
FAILS = ("update_scale/backs-off",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=2000):
    if not finite:
        return 65536.0, 0
    if good_steps + 1 == growth_interval:
        return scale * 2.0, 0
    return scale, good_steps + 1
