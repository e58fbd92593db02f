"""Claims of handbook/optimizers.md: gradients that are missing."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer, SparseAdam

from rankzero.claims.claim import claim

from .shared import Make


@claim(
    "none-is-skipped-zero-is-not",
    "A weight without a gradient stays; a weight with gradient 0 is moved by momentum's and Adam's averages, and "
    "decays.",
    expected={"momentum, None": 0, "momentum, zero": 1, "AdamW, None": 0, "AdamW, zero": 1, "AdamW new, zero": 1},
    unit="weights of 1 moved",
)
def none_and_zero() -> Mapping[str, float]:
    """Makes an update with gradient 1, then one with None or 0; "new" has only the one with 0, so only decay acts."""

    def moved(make: Make, gradient: Tensor | None, first: bool = True) -> int:
        weights = torch.ones(1, requires_grad=True)
        optimizer = make([weights])
        if first:
            weights.grad = torch.ones(1)
            optimizer.step()
        before = weights.detach().clone()
        weights.grad = gradient
        optimizer.step()
        return int((weights != before).sum())

    def momentum(p: list[Tensor]) -> Optimizer:
        return SGD(p, lr=0.1, momentum=0.9)

    def adamw(p: list[Tensor]) -> Optimizer:
        return AdamW(p, lr=0.1)

    return {
        "momentum, None": moved(momentum, None),
        "momentum, zero": moved(momentum, torch.zeros(1)),
        "AdamW, None": moved(adamw, None),
        "AdamW, zero": moved(adamw, torch.zeros(1)),
        "AdamW new, zero": moved(adamw, torch.zeros(1), first=False),
    }


@claim(
    "embedding-rows-that-move",
    "A batch that uses one of ten rows of an embedding, after one that used two others, moves 1 row with SGD, "
    "{expected[AdamW, no decay]} with AdamW without decay, all {expected[AdamW]} with decay, and 1 with SparseAdam.",
    expected={"SGD": 1, "AdamW, no decay": 3, "AdamW": 10, "SparseAdam": 1},
    unit="rows",
)
def embedding_rows() -> Mapping[str, float]:
    """Looks up rows 1 and 2, updates, looks up row 3, updates, and counts the rows that the second update changed."""

    def moved(make: Make, sparse: bool = False) -> int:
        torch.manual_seed(0)
        table = nn.Embedding(10, 4, sparse=sparse)
        optimizer = make(list(table.parameters()))
        for rows in ((1, 2), (3,)):
            before = table.weight.detach().clone()
            optimizer.zero_grad()
            table(torch.tensor(rows)).square().sum().backward()
            optimizer.step()
        return int((table.weight != before).any(dim=1).sum())

    return {
        "SGD": moved(lambda p: SGD(p, lr=0.1)),
        "AdamW, no decay": moved(lambda p: AdamW(p, lr=0.1, weight_decay=0)),
        "AdamW": moved(lambda p: AdamW(p, lr=0.1)),
        "SparseAdam": moved(lambda p: SparseAdam(p, lr=0.1), sparse=True),
    }
