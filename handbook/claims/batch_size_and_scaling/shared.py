"""Models, measurements and sources that the claims of handbook/batch-size-and-scaling.md share."""

import torch
from torch import Tensor
from torch.optim import AdamW

from rankzero.claims.toolkit.lab_model import next_token_loss
from rankzero.learn.models.gpt import GPT, GPTConfig

LARGE_BATCH = "[McCandlish et al.](https://arxiv.org/abs/1812.06162)"
V, T = 32, 16  # tokens in the vocabulary of a made-up language, and in a sentence of it


def sentences(count: int, seed: int) -> Tensor:
    """Sentences of a language in which each token is followed by one of four: int64 [count, T + 1]."""
    successors = torch.randint(V, (V, 4), generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(V, (count, 1), generator=generator)
    for _ in range(T):
        choice = torch.randint(4, (count,), generator=generator)
        tokens = torch.cat([tokens, successors[tokens[:, -1], choice][:, None]], dim=1)
    return tokens


def small_gpt() -> GPT:
    """A GPT of one block for that language, in float64."""
    torch.manual_seed(0)
    return GPT(GPTConfig(V, block_size=T, n_layer=1, n_head=2, hidden_dim=32)).double()


def trained(batch_size: int, steps: int, rate: float) -> GPT:
    """The small GPT after AdamW steps on fresh sentences."""
    model = small_gpt()
    optimizer = AdamW(model.parameters(), lr=rate)
    for batch in sentences(batch_size * steps, seed=1000).split(batch_size):
        optimizer.zero_grad()
        next_token_loss(model, batch).backward()
        optimizer.step()
    return model
