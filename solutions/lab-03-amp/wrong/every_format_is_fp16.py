"""The numbers are stored in fp16, whatever `dtype` says. bf16 has fp32's exponent and loses hardly anything that
fp32 holds; that is the whole reason why it needs no scaler."""

EXERCISE = "share_lost"
FAILS = ("share_lost/scale",)
READ = "handbook/precision.md#the-bottom-of-the-range"


def share_lost(gradients, scale, dtype):
    lost, there = 0, 0
    for gradient in gradients:
        if gradient is not None:
            nonzero = gradient[gradient != 0]
            lost += int(((nonzero * scale).half() == 0).sum())
            there += nonzero.numel()
    return lost / there if there else 0.0
