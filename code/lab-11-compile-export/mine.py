"""The learner's functions in Lab 11's starter: `rankzero run 11 --mine`.

The learner's pad_to_bucket pads every batch, in buckets of multiples of --pad-to tokens, so that padding that counts in
the loss, or that the model sees, gives another curve. The learner's compilations counts in the table at the start.
"""

from typing import Any

import torch
from torch import Tensor

USES = ("bucket_of", "pad_to_bucket", "compilations")  # functions whose exercises must pass first
OPTIONS = ("--device", "cpu", "--backend", "eager", "--pad-to", "16")  # of the starter: no C++ compiler is needed
ROUNDING = 1e-6  # the same operations in the same order


def replacements(starter: Any, learner: Any) -> dict[str, Any]:
    """Returns what takes the place of the starter's functions, by name."""
    pad_to_bucket, compilations = learner.pad_to_bucket, learner.compilations

    def padded(x: Tensor, y: Tensor, multiple: int, longest: int) -> tuple[Tensor, Tensor]:
        buckets = [min(size, longest) for size in range(multiple, longest + multiple, multiple)]
        pair: tuple[Tensor, Tensor] = pad_to_bucket(x, y, buckets, 0)
        return pair

    def count_compilations(loss_of: Any, lengths: list[int], dynamic: bool | None) -> list[int]:
        device = loss_of.model.head.weight.device
        batches = [torch.zeros(2, length, dtype=torch.int64, device=device) for length in lengths]
        counts: list[int] = compilations(loss_of, [(tokens, tokens) for tokens in batches], dynamic)
        return counts

    return {"padded": padded, "count_compilations": count_compilations}
