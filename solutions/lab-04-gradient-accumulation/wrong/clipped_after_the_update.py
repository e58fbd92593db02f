"""The clipping comes after optimizer.step(). The update has already followed the long gradient, and what is shortened
is thrown away by the next zero_grad. The norm that is logged is right, so nothing looks wrong."""

import torch.nn.functional as F

EXERCISE = "clip_once"
FAILS = ("clip_once/once",)
READ = "handbook/gradient-mechanics.md#clipping-by-norm-and-by-value"


def clipped_update(model, optimizer, micro_batches, max_norm):
    optimizer.zero_grad(set_to_none=True)
    for x, y in micro_batches:
        (F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / len(micro_batches)).backward()
    optimizer.step()
    return clip_gradients(model.parameters(), max_norm)  # noqa: F821
