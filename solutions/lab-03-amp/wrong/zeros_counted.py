"""Numbers that are 0 before are counted too, as lost and as there. An embedding has a row of zeros for every token
that is not in the batch, so this share depends on the vocabulary more than on the format."""

EXERCISE = "share_lost"
FAILS = ("share_lost/zeros",)
READ = "handbook/precision.md#the-bottom-of-the-range"


def share_lost(gradients, scale, dtype):
    lost, there = 0, 0
    for gradient in gradients:
        if gradient is not None:
            lost += int(((gradient * scale).to(dtype) == 0).sum())
            there += gradient.numel()
    return lost / there if there else 0.0
