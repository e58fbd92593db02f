"""The usual two slips at once. step / warmup_steps makes the first rate 0, a step for nothing: with steps counted
from 0, use step + 1. And the progress is not limited to 1, so after the last step the cosine comes back up."""

import math

EXERCISE = "learning_rate"
FAILS = ("learning_rate/warm-up", "learning_rate/after")
READ = "handbook/training-loop.md#around-the-step"


def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * step / warmup_steps
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
