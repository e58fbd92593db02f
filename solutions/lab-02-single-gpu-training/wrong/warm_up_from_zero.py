"""The warm-up counts step / warmup_steps, so the first step has rate 0: a forward and a backward pass for nothing,
and the peak is never reached within the warm-up. With steps counted from 0, use step + 1."""

import math

EXERCISE = "learning_rate"
FAILS = ("learning_rate/warm-up",)
READ = "handbook/training-loop.md#around-the-step"


def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * step / warmup_steps
    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
