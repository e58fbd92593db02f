"""The cosine falls to 0 and is cut off at the floor. It then reaches the floor early and stays there, instead of
ending there: the whole curve lies below the one that was asked for."""

import math

EXERCISE = "learning_rate"
FAILS = ("learning_rate/cosine",)
READ = "handbook/training-loop.md#around-the-step"


def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
    return max(floor, peak * 0.5 * (1 + math.cos(math.pi * progress)))
