"""After the scale has grown the count goes on instead of starting anew. With == it never grows a second time; with
>= it doubles at every later step and overflows within a few."""

EXERCISE = "update_scale"
FAILS = ("update_scale/grows",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=2000):
    if not finite:
        return scale * 0.5, 0
    if good_steps + 1 == growth_interval:
        return scale * 2.0, good_steps + 1
    return scale, good_steps + 1
