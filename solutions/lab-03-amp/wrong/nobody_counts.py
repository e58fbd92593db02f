"""A good step leaves the count where it is, so an interval is never completed and the scale never grows. The count
that comes back has to include the step at hand."""

EXERCISE = "update_scale"
FAILS = ("update_scale/grows",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=2000):
    if not finite:
        return scale * 0.5, 0
    if good_steps + 1 == growth_interval:
        return scale * 2.0, 0
    return scale, good_steps
