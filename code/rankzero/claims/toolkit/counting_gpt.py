"""A tiny GPT trained on counting text (rankzero.learn.data.synthetic_text), for the claims on optimizers and rates."""

from collections.abc import Callable

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from rankzero.claims.toolkit.lab_model import next_token_loss
from rankzero.learn.data.synthetic_text import LOWEST_LOSS, VOCAB_SIZE, synthetic_batches
from rankzero.learn.models.gpt import GPT, GPTConfig

STEPS = 100


def tiny_gpt(seed: int = 0) -> GPT:
    """One layer, 32 wide, in float64, so that machines agree."""
    torch.manual_seed(seed)
    return GPT(GPTConfig(VOCAB_SIZE, block_size=16, n_layer=1, n_head=2, hidden_dim=32)).double()


def excess(
    rate: Callable[[int], float],
    *,
    make: Callable[[list[nn.Parameter]], Optimizer] = lambda p: AdamW(p),
    seed: int = 0,
) -> float:
    """Nats per token above the lowest loss on new text, after 100 steps; `rate` gives the rate of step 0, 1, ..."""
    model = tiny_gpt(seed)
    optimizer = make(list(model.parameters()))
    for step, batch in enumerate(synthetic_batches(STEPS, seed=1 + seed)):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad()
        next_token_loss(model, batch).backward()
        optimizer.step()
    with torch.no_grad():
        return next_token_loss(model, synthetic_batches(1, seed=1000, batch_size=64)[0]).item() - LOWEST_LOSS
