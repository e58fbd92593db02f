"""The rate falls along a straight line. A cosine stays near the peak at first and near the floor at last; the line
does neither."""

EXERCISE = "learning_rate"
FAILS = ("learning_rate/cosine",)
READ = "handbook/training-loop.md#around-the-step"


def learning_rate(step, peak, warmup_steps, total_steps, floor):
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))
    return peak + (floor - peak) * progress
