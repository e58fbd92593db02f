"""The warm-up factor is computed for every step, so a warm-up of 0 steps divides by zero. Ask whether the step is
in the warm-up first."""

import math

EXERCISE = "learning_rate"
FAILS = ("learning_rate/no-warm-up",)
READ = "handbook/training-loop.md#around-the-step"


def learning_rate(step, peak, warmup_steps, total_steps, floor):
    warmup = peak * (step + 1) / warmup_steps
    progress = min(1.0, max(0.0, (step - warmup_steps) / (total_steps - warmup_steps)))
    return min(warmup, floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress)))
