"""Epoch sampler: every window of a text once per epoch, with a position that a checkpoint can keep."""

import numpy as np
import torch
from torch import Tensor

from rankzero.learn.data.batches import check_length


class EpochSampler:
    """Draws every window of the text once per epoch, in an order that only the seed and the epoch decide."""

    def __init__(self, windows: int, seed: int) -> None:
        self.windows, self.seed = windows, seed
        self.epoch, self.position = 0, 0  # windows drawn in this epoch, by all ranks together
        self._order_of_epoch = -1, torch.empty(0)

    def next(self, count: int) -> Tensor:
        """Returns the numbers of the next `count` windows, int64 [count]; the last of an epoch come with the next's."""
        order = self._order()
        drawn = order[self.position : self.position + count]
        self.position += len(drawn)
        if self.position == self.windows:
            self.epoch, self.position = self.epoch + 1, 0
        return drawn if len(drawn) == count else torch.cat([drawn, self.next(count - len(drawn))])

    def _order(self) -> Tensor:
        if self._order_of_epoch[0] != self.epoch:
            shuffled = np.random.default_rng((self.seed, self.epoch)).permutation(self.windows)
            self._order_of_epoch = self.epoch, torch.from_numpy(shuffled)
        return self._order_of_epoch[1]

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.position = state["epoch"], state["position"]


def windows_in(tokens: Tensor, block_size: int) -> int:
    """Returns how many windows of `block_size` tokens and their targets lie side by side in `tokens`."""
    check_length(tokens, block_size)
    return (len(tokens) - 1) // block_size


def windows_at(tokens: Tensor, numbers: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    """Returns the windows with these numbers: inputs and targets, both int64 [len(numbers), block_size]."""
    windows = tokens.unfold(0, block_size + 1, block_size)[numbers]  # [B, T + 1]
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
