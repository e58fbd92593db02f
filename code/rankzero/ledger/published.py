"""Activation memory by a published formula, and the layer that the paper counts.

Korthikanti and others, "Reducing Activation Recomputation in Large Transformer Models" (arXiv 2205.05198), table 2.
Their symbols: s tokens in a sequence, b sequences, h = width, a heads, t tensor-parallel ranks. Numbers are 16-bit,
dropout masks take a byte, and attention keeps its squares, which fused kernels do not.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from rankzero.errors import UserError

Recompute = Literal["none", "selective", "full"]


def korthikanti(
    s: int, b: int, h: int, a: int, *, t: int = 1, sequence_parallel: bool = False, recompute: Recompute = "none"
) -> float:
    """Returns the bytes that one layer keeps for backward on one rank, by table 2 of the paper.

    "selective" recomputes the squares of attention, "full" all but the input of the layer.
    """
    if recompute not in ("none", "selective", "full"):
        raise UserError(f"there is no recomputation {recompute!r}: use none, selective or full.")
    sbh = s * b * h
    if recompute == "full":
        return 2 * sbh
    squares = 5 * a * s / h if recompute == "none" else 0
    replicated, split = (0, 34) if sequence_parallel else (10, 24)  # bytes per sbh, under tensor parallelism
    return sbh * (replicated + split / t + squares / t)


class ReferenceLayer(nn.Module):
    """The layer behind the formula: every tensor that the paper counts is made, and kept, one by one."""

    def __init__(self, h: int, a: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.heads, self.dropout = a, dropout
        self.norm1, self.norm2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.qkv, self.proj = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, 4 * h), nn.Linear(4 * h, h)

    def forward(self, x: Tensor) -> Tensor:
        """[b, s, h] -> [b, s, h]"""
        x = x + self._drop(self._attention(self.norm1(x)))
        return x + self._drop(self.down(nn.functional.gelu(self.up(self.norm2(x)))))

    def _attention(self, x: Tensor) -> Tensor:
        b, s, h = x.shape
        q, k, v = (part.view(b, s, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) * (h // self.heads) ** -0.5
        # Adding minus infinity keeps nothing for backward; masked_fill would keep its mask.
        scores = scores + torch.full((s, s), -torch.inf, dtype=x.dtype).triu(1)
        return self.proj((self._drop(scores.softmax(-1)) @ v).transpose(1, 2).reshape(b, s, h))

    def _drop(self, x: Tensor) -> Tensor:
        return torch.native_dropout(x, self.dropout, True)[0]  # keeps a mask of one byte per number
