"""Synthetic text with a known lowest loss: each token follows from the token before it and a random number of three.

A model that has learned the rule still cannot predict the random number, so its loss is ln 3 nats per token. Loss above
that comes from training, which lets rates, schedules and optimizers be compared in seconds.
"""

import math

import torch
from torch import Tensor

VOCAB_SIZE = 32
LOWEST_LOSS = math.log(3)  # nats per token, of a model that has learned the rule


def synthetic_batches(steps: int, *, seed: int, batch_size: int = 8, tokens: int = 16) -> Tensor:
    """Returns a batch per step, int64 [steps, batch_size, tokens + 1]: inputs, and one more token for the targets."""
    generator = torch.Generator().manual_seed(seed)
    columns = [torch.randint(VOCAB_SIZE, (steps, batch_size), generator=generator)]
    for _ in range(tokens):
        random_number = torch.randint(3, (steps, batch_size), generator=generator)
        columns.append((5 * columns[-1] + 1 + random_number) % VOCAB_SIZE)
    return torch.stack(columns, dim=-1)
