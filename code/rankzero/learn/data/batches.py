"""Batches of token sequences and their targets: the same text, one token later.

The batch of a step is a function of the seed and the step's number alone, so a resumed run gets the same data as an
uninterrupted one, with no position to save.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rankzero.errors import UserError


def random_batch(tokens: Tensor, *, step: int, seed: int, batch_size: int, block_size: int) -> tuple[Tensor, Tensor]:
    """Returns the training batch of `step`: inputs and targets, both int64 [batch_size, block_size].

    `tokens` is int64 [N]. Each row starts at its own random position; the target of each token is the next token.
    """
    check_length(tokens, block_size)
    # default_rng hashes the pair, so neighboring steps and seeds give unrelated draws.
    starts = np.random.default_rng((seed, step)).integers(len(tokens) - block_size, size=batch_size)
    return _windows(tokens, torch.from_numpy(starts), block_size)


def validation_batches(
    tokens: Tensor, *, count: int, batch_size: int, block_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields at most `count` batches of windows spread evenly over `tokens`, the same batches every time.

    Windows do not overlap. The last batch is smaller where the text runs out, so weigh each batch by its tokens.
    """
    check_length(tokens, block_size)
    available = (len(tokens) - 1) // block_size
    windows = min(count * batch_size, available)
    starts = torch.arange(windows) * available // windows * block_size
    for chunk in starts.split(batch_size):
        yield _windows(tokens, chunk, block_size)


def to_device(x: Tensor, y: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Returns the batch on `device`. On CUDA it goes through pinned memory, whose copy is queued and does not block."""
    if device.type == "cuda":
        x, y = x.pin_memory(), y.pin_memory()
    return x.to(device, non_blocking=True), y.to(device, non_blocking=True)


def check_length(tokens: Tensor, block_size: int, subject: str = "text") -> None:
    """UserError unless `tokens` holds one sequence and its targets: block_size + 1 tokens."""
    if len(tokens) <= block_size:
        raise UserError(
            f"{subject} has {len(tokens)} tokens, too short for one sequence of {block_size} and its targets "
            f"({block_size + 1}): use a longer text or a smaller block size."
        )


def _windows(tokens: Tensor, starts: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    windows = tokens.unfold(0, block_size + 1, 1)[starts]  # [B, T + 1]
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
