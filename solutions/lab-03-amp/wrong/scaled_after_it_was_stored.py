"""The gradient is stored in 16 bits first and multiplied afterwards. What became 0 stays 0 under any scale. That is
why a scaler multiplies the loss, before backward, and not the gradients, after it."""

EXERCISE = "share_lost"
FAILS = ("share_lost/scale",)
READ = "handbook/precision.md#the-bottom-of-the-range"


def share_lost(gradients, scale, dtype):
    lost, there = 0, 0
    for gradient in gradients:
        if gradient is not None:
            nonzero = gradient[gradient != 0]
            lost += int((nonzero.to(dtype) * scale == 0).sum())
            there += nonzero.numel()
    return lost / there if there else 0.0
