"""Claims of handbook/optimizers.md: updates by hand."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, RMSprop

from rankzero.claims.claim import claim

from .shared import Make, noise


def by_hand(name: str, gradients: list[Tensor], start: Tensor, lr: float) -> Tensor:
    """The weights after an update with each gradient, by the formulas of the page; weight decay is 0.1 where used."""
    p, u = start.clone(), torch.zeros_like(start)
    m, v = torch.zeros_like(start), torch.zeros_like(start)
    for t, gradient in enumerate(gradients, start=1):
        g = gradient + 0.1 * p if name == "Adam, L2" else gradient
        if name in ("momentum", "Nesterov"):
            u = 0.9 * u + g
            p = p - lr * (u if name == "momentum" else g + 0.9 * u)
        elif name == "RMSprop":
            v = 0.99 * v + 0.01 * g**2
            p = p - lr * g / (v.sqrt() + 1e-8)
        elif name == "SGD":
            p = p - lr * g
        else:
            if name == "AdamW":
                p = p - lr * 0.1 * p
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            p = p - lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
    return p


@claim(
    "optimizers-by-hand",
    "SGD, momentum, Nesterov, RMSprop, Adam, Adam with L2 and AdamW, written by hand, agree with PyTorch's.",
    expected=dict.fromkeys(("SGD", "momentum", "Nesterov", "RMSprop", "Adam", "Adam, L2", "AdamW"), 0),
    tolerance=1e-14,
    unit="largest difference of a weight near 1",
)
def optimizers_by_hand() -> Mapping[str, float]:
    """Makes 50 updates of 1,000 random weights in float64 with random gradients, by hand and with torch.optim.

    The tolerance is rounding: 50 updates, each wrong by about 1e-16.
    """
    kinds: dict[str, Make] = {
        "SGD": lambda p: SGD(p, lr=1e-2),
        "momentum": lambda p: SGD(p, lr=1e-2, momentum=0.9),
        "Nesterov": lambda p: SGD(p, lr=1e-2, momentum=0.9, nesterov=True),
        "RMSprop": lambda p: RMSprop(p, lr=1e-2),
        "Adam": lambda p: Adam(p, lr=1e-2),
        "Adam, L2": lambda p: Adam(p, lr=1e-2, weight_decay=0.1),
        "AdamW": lambda p: AdamW(p, lr=1e-2, weight_decay=0.1),
    }
    gradients, start = noise(50), noise(1)[0]
    found = {}
    for name, make in kinds.items():
        weights = start.clone().requires_grad_()
        optimizer = make([weights])
        for gradient in gradients:
            weights.grad = gradient.clone()
            optimizer.step()
        found[name] = (weights.detach() - by_hand(name, gradients, start, 1e-2)).abs().max().item()
    return found
