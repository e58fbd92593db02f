"""Text whose best possible loss is known: each token is a function of the one before it, and a die of three sides.

A model that has learned the rule still cannot predict the die, so its loss is ln 3 nats a token. What a run has above
that is its own fault. Rates, schedules and optimizers are compared on it in seconds.
"""

import math

import torch
from torch import Tensor

VOCAB_SIZE = 32
FLOOR = math.log(3)  # nats a token, of a model that knows the rule


def counting_batches(steps: int, *, seed: int, batch_size: int = 8, tokens: int = 16) -> Tensor:
    """A batch for each step: int64 [steps, batch_size, tokens + 1], inputs and the one token more for targets."""
    generator = torch.Generator().manual_seed(seed)
    columns = [torch.randint(VOCAB_SIZE, (steps, batch_size), generator=generator)]
    for _ in range(tokens):
        die = torch.randint(3, (steps, batch_size), generator=generator)
        columns.append((5 * columns[-1] + 1 + die) % VOCAB_SIZE)
    return torch.stack(columns, dim=-1)
