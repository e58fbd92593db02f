"""The progress is not limited to 1, so after the last step the cosine comes back up. A run that is prolonged then
trains at a rising rate."""

import math

EXERCISE = "learning_rate"
FAILS = ("learning_rate/after",)
READ = "handbook/training-loop.md#around-the-step"


def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
