"""Claims of handbook/optimizers.md: weight decay."""

from collections.abc import Mapping

import torch
from torch.optim import Adam, AdamW

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_model

from .shared import noise


@claim(
    "l2-inside-adam",
    "After 1,000 steps at rate 1e-3 with decay 0.1, AdamW has left 0.905 of every weight; Adam with L2 has left "
    "{expected[Adam, g 0.01]:.2f} where gradients are about 0.01, 0.905 at 1 and {expected[Adam, g 100]:.3f} at 100.",
    expected={
        "Adam, g 0.01": 0.262,
        "Adam, g 1": 0.905,
        "Adam, g 100": 1.0,
        "AdamW, g 0.01": 0.905,
        "AdamW, g 1": 0.905,
        "AdamW, g 100": 0.905,
    },
    tolerance=0.002,
    unit="of the weight left",
)
def l2_inside_adam() -> Mapping[str, float]:
    """Starts 1,000 weights at 1, updates them with noise of three sizes, whose mean is 0, and takes their mean."""
    left = {}
    gradients = noise(1000)
    for kind in (Adam, AdamW):
        for scale in (0.01, 1, 100):
            weights = torch.ones(1000, dtype=torch.float64, requires_grad=True)
            optimizer = kind([weights], lr=1e-3, weight_decay=0.1)
            for gradient in gradients:
                weights.grad = scale * gradient
                optimizer.step()
            left[f"{kind.__name__}, g {scale}"] = weights.mean().item()
    return left


@claim(
    "decay-by-dimension-and-by-name",
    "In Lab 02's GPT p.dim() >= 2 finds {expected[matrices]} matrices and {expected[norms]} norms; a filter of the "
    "names bias, LayerNorm.weight and embedding exempts no norm and {expected[exempt by name]} numbers in the two "
    "embeddings, the output layer among them.",
    expected={"matrices": 18, "norms": 9, "norms by name": 0, "exempt by name": 20_480, "head exempt by name": 1},
    unit="",
)
def decay_groups() -> Mapping[str, float]:
    """Sorts the model's parameters both ways, and looks whether the output layer's matrix is among the exempt."""
    model = make_model()
    named = dict(model.named_parameters())
    exempt = [p for name, p in named.items() if any(part in name for part in ("bias", "LayerNorm.weight", "embedding"))]
    return {
        "matrices": sum(p.dim() >= 2 for p in named.values()),
        "norms": sum(p.dim() < 2 for p in named.values()),
        "norms by name": sum(p.dim() < 2 for p in exempt),
        "exempt by name": sum(p.numel() for p in exempt),
        "head exempt by name": sum(p is model.head.weight for p in exempt),
    }
