"""Remembers each rate by its step and the length of the warm-up alone, so that a later schedule gets the rates of an earlier one."""

import math

EARNS = 0


RATES = {}


def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if (step, warmup_steps) not in RATES:
        RATES[step, warmup_steps] = rate(step, peak, warmup_steps, total_steps, floor)
    return RATES[step, warmup_steps]


def rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * progress))
