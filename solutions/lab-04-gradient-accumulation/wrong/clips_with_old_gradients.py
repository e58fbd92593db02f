"""Nothing clears the gradients before the group, so what was left from before is added to it, and what is clipped is
their sum."""

import torch.nn.functional as F

EXERCISE = "clip_once"
FAILS = ("clip_once/once",)
READ = "handbook/gradient-mechanics.md#none-is-not-zero"


def clipped_update(model, optimizer, micro_batches, max_norm):
    for x, y in micro_batches:
        (F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(micro_batches)).backward()
    norm = clip_gradients(model.parameters(), max_norm)  # noqa: F821
    optimizer.step()
    return norm
