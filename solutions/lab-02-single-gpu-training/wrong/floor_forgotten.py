"""The cosine falls to 0 instead of to the floor. The last steps then hardly move, and the last of all not at
all."""

import math

EXERCISE = "learning_rate"
FAILS = ("learning_rate/cosine", "learning_rate/after")
READ = "handbook/training-loop.md#around-the-step"


def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
    return peak * 0.5 * (1 + math.cos(math.pi * progress))
