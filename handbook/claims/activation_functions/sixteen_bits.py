"""Claims of handbook/activation-functions.md: 16 bits."""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from rankzero.claims.claim import claim

from .shared import _derivative, _gelu_by_hand


def _positive(dtype: torch.dtype) -> Tensor:
    """Returns every finite number of a 16-bit type that is at least 0."""
    numbers = torch.arange(2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    return numbers[numbers.isfinite()]


@claim(
    "sigmoid-is-one-in-16-bits",
    "For inputs from 6.25 a sigmoid is 1 and its derivative 0 in bf16, from 8.32 in fp16.",
    expected={"bf16, is 1": 6.25, "bf16, derivative 0": 6.25, "fp16, is 1": 8.32, "fp16, derivative 0": 8.32},
    tolerance=0.001,
    unit="input",
)
def sigmoid_is_one() -> Mapping[str, float]:
    """Evaluates and differentiates the sigmoid at every positive number of each type and takes the least."""
    inputs = {}
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        x = _positive(dtype)
        inputs[f"{name}, is 1"] = x[torch.sigmoid(x) == 1].min().item()
        inputs[f"{name}, derivative 0"] = x[_derivative(torch.sigmoid, x) == 0].min().item()
    return inputs


@claim(
    "gelu-by-hand-in-fp16",
    "GELU's tanh form written out in fp16 has a gradient of nan from {expected[by hand]:.0f} on, where 3x² "
    "overflows; PyTorch's has none.",
    expected={"by hand": 147.875, "PyTorch's": 0},
    unit="least input with nan; how many nan",
)
def gelu_in_fp16() -> Mapping[str, float]:
    """Differentiates both at every positive fp16 number."""
    x = _positive(torch.float16)
    by_hand = _derivative(_gelu_by_hand, x)
    library = _derivative(lambda at: F.gelu(at, approximate="tanh"), x)
    return {"by hand": x[by_hand.isnan()].min().item(), "PyTorch's": library.isnan().sum().item()}


@claim(
    "gelu-by-hand-cancels",
    "Written out with erf in bf16, GELU at -3 is {expected[by hand]:.0f} % too far from 0; PyTorch's "
    "{expected[PyTorch's]} %.",
    expected={"by hand": 44.7, "PyTorch's": 0.2},
    tolerance=0.1,
    unit="% off",
)
def gelu_cancels() -> Mapping[str, float]:
    """Divides by the exact value, computed in float64."""
    x = torch.tensor(-3.0, dtype=torch.bfloat16)
    exact = F.gelu(x.double()).item()
    by_hand = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    return {name: 100 * (y.item() / exact - 1) for name, y in (("by hand", by_hand), ("PyTorch's", F.gelu(x)))}
