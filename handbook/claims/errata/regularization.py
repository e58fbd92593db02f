"""Claims of handbook/errata.md, section *Regularization*."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F

from rankzero.claims.claim import claim


@claim(
    "errata-smoothed-targets",
    "With label smoothing 0.1 and three classes, PyTorch's target is {expected[right class]:.3f} for the right class "
    "and {expected[each other]:.3f} for each other.",
    expected={"right class": 0.9 + 0.1 / 3, "each other": 0.1 / 3},
    unit="probability",
    tolerance=1e-6,
)
def smoothed_targets() -> Mapping[str, float]:
    """Reads the target from the gradient of cross_entropy, which is the softmax minus the target."""
    logits = torch.zeros(1, 3, requires_grad=True)
    F.cross_entropy(logits, torch.tensor([1]), label_smoothing=0.1).backward()
    assert logits.grad is not None
    target = logits.detach().softmax(1) - logits.grad
    assert target[0, 0] == target[0, 2]
    return {"right class": target[0, 1].item(), "each other": target[0, 0].item()}
