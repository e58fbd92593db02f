"""Claims of handbook/batch-size-and-scaling.md: steps and epochs."""

from collections.abc import Mapping

import torch

from rankzero.claims.claim import claim
from rankzero.learn.data.batches import random_batch


@claim(
    "tokens-never-drawn",
    "600 steps of 12 random windows of 64 draw {expected[epochs, by count]:.2f} times 418,648 tokens, and leave a "
    "third of them unseen.",
    expected={"epochs, by count": 1.10, "share never drawn": 0.33},
    tolerance=0.01,
    unit="",
)
def never_drawn() -> Mapping[str, float]:
    """Draws Lab 02's batches from the numbers 0 to 418,647 and looks which of them came."""
    tokens, seen = torch.arange(418_648), torch.zeros(418_648, dtype=torch.bool)
    drawn = 0
    for step in range(600):
        x, _ = random_batch(tokens, step=step, seed=0, batch_size=12, block_size=64)
        seen[x.flatten()] = True
        drawn += x.numel()
    return {"epochs, by count": drawn / len(tokens), "share never drawn": 1 - seen.float().mean().item()}
