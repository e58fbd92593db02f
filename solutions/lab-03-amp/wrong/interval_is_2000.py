"""2000 is written into the code and `growth_interval` is ignored. It is the default; a short run, or a test, asks
for less."""

EXERCISE = "update_scale"
FAILS = ("update_scale/grows",)
READ = "handbook/precision.md#a-scale-that-finds-itself"


def update_scale(scale, good_steps, finite, growth_interval=2000):
    if not finite:
        return scale * 0.5, 0
    if good_steps + 1 == 2000:
        return scale * 2.0, 0
    return scale, good_steps + 1
