"""The cosine's progress is counted from step 0, not from the end of the warm-up. The rate jumps down where the two
pieces meet: the first step after the warm-up is already part of the way along the cosine."""

import math

EXERCISE = "learning_rate"
FAILS = ("learning_rate/cosine",)
READ = "handbook/training-loop.md#around-the-step"


def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = min(1.0, step / total_steps)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
