"""Claims of handbook/activation-functions.md: initial weights."""

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_batch, make_model
from rankzero.learn.models.gpt import Block

from .shared import Curve


def _through(curve: Curve, gain: float, depth: int = 50, width: int = 256) -> tuple[float, float]:
    """Returns the standard deviation before the last activation, and the cosine of two unrelated examples there."""
    torch.manual_seed(0)
    x = torch.randn(64, width, dtype=torch.float64)
    before = x
    for _ in range(depth):
        before = x @ (torch.randn(width, width, dtype=torch.float64) * gain / width**0.5).T
        x = curve(before)
    return before.std().item(), F.cosine_similarity(before[0], before[1], dim=0).item()


@claim(
    "fifty-layers-of-relu",
    "After 50 layers ReLU with Kaiming's weights holds a standard deviation of order 1; with Xavier's 10^-7.3 is left.",
    expected={"Kaiming": 0, "Xavier": -7.3},
    tolerance=0.5,
    unit="powers of ten",
    source="[He et al.](https://arxiv.org/abs/1502.01852)",
)
def fifty_layers() -> Mapping[str, float]:
    """Sends 64 normal inputs through 50 layers of 256 units. The tolerance is what a width of 256 leaves to chance."""
    return {name: math.log10(_through(F.relu, gain)[0]) for name, gain in (("Kaiming", 2**0.5), ("Xavier", 1.0))}


@claim(
    "unrelated-inputs-align",
    "After 50 layers of ReLU or sigmoid two unrelated inputs have a cosine of {expected[ReLU]} or more; of tanh with "
    "gain 5/3 near 0.",
    expected={"ReLU": 0.99, "sigmoid": 1, "tanh": 0},
    tolerance=0.1,
    unit="cosine",
)
def inputs_align() -> Mapping[str, float]:
    """Sends both through 50 layers of 256 units; the tolerance is the cosine of unrelated vectors of that width."""
    return {
        "ReLU": _through(F.relu, 2**0.5)[1],
        "sigmoid": _through(torch.sigmoid, 1.0)[1],
        "tanh": _through(torch.tanh, 5 / 3)[1],
    }


@claim(
    "no-gain-for-gelu",
    "After 50 layers GELU with a gain of √2 has faded to 2e-4, 10^-3.7; with the gain right for variance 1 it has "
    "grown to 81, and SiLU with its own to 6,000.",
    expected={"GELU, √2": -3.7, "GELU, 1.5335": 1.9, "SiLU, 1.6765": 3.8},
    tolerance=0.2,
    unit="powers of ten",
)
def no_gain() -> Mapping[str, float]:
    """Sends 64 normal inputs through 50 layers of 256 units and takes the logarithm of the standard deviation."""
    cases: dict[str, tuple[Curve, float]] = {
        "GELU, √2": (F.gelu, 2**0.5),
        "GELU, 1.5335": (F.gelu, 1.5335),
        "SiLU, 1.6765": (F.silu, 1.6765),
    }
    return {name: math.log10(_through(curve, gain)[0]) for name, (curve, gain) in cases.items()}


@claim(
    "gelu-inputs-at-the-start",
    "In Lab 02's untrained model GELU's inputs have a standard deviation of 0.23 in every block: 0.02 · √128.",
    expected={f"block {i}": 0.226 for i in range(4)},
    tolerance=0.01,
    unit="",
)
def gelu_inputs() -> Mapping[str, float]:
    """Hooks the layer before GELU in each block and runs one batch."""
    model, stds = make_model(), dict[str, float]()

    def remember(name: str) -> Callable[[nn.Module, tuple[Tensor], Tensor], None]:
        return lambda module, inputs, output: stds.update({name: output.std().item()})

    for index, block in enumerate(model.blocks):
        assert isinstance(block, Block)
        block.mlp.up.register_forward_hook(remember(f"block {index}"))
    model(make_batch()[0])
    return stds
