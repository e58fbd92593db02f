"""Claims of handbook/precision.md: memory, and speed on CUDA."""

from collections.abc import Mapping

import torch

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import gpu, milliseconds, pick
from rankzero.ledger.ledger import Kind
from rankzero.ledger.measure import measure
from rankzero.ledger.models import PRESETS
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES


@claim(
    "precision-amp-bytes",
    "Under autocast a parameter of GPT-2's shape takes {expected[amp]} bytes where fp32 takes {expected[fp32]}: the "
    "bf16 copy of each matrix comes on top.",
    expected={"fp32": 16, "amp": 18},
    tolerance=0.05,
    unit="B per parameter",
)
def amp_bytes() -> Mapping[str, float]:
    """Measures a step on fake tensors with the ledger of Lab 01. A few small tensors have no copy: the tolerance."""
    found = {}
    for recipe in ("fp32", "amp"):
        ledger = measure(
            PRESETS["gpt2"], RECIPES[recipe], OPTIMIZERS["adamw"], batch_size=1, seq_len=64, device="fake", peaks=False
        )
        held = sum(ledger.total(kind) for kind in (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER))
        found[recipe] = held / 124_337_664
    return found


@claim(
    "precision-tf32",
    "On a GPU with TF32, allowing it makes a product of 4,096 x 4,096 matrices more than twice as fast, and rounds its "
    "inputs to 11 digits: the error is between 1e-4 and 1e-3 of the result.",
    expected={"more than twice as fast": 1, "error between 1e-4 and 1e-3": 1},
    unit="",
    needs=("cuda",),
)
def tf32() -> Mapping[str, float]:
    """Times products each way by CUDA events, and divides the lengths of error and result."""
    torch.manual_seed(0)
    a, b = (torch.randn(pick(4096, 64), pick(4096, 64), device=gpu()) for _ in range(2))
    exact, times, before = a.double() @ b.double(), {}, torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high"):
            torch.set_float32_matmul_precision(precision)
            times[precision] = milliseconds(lambda: a @ b).median
        error = float(((a @ b).double() - exact).norm() / exact.norm())
    finally:
        torch.set_float32_matmul_precision(before)
    return {
        "more than twice as fast": int(times["highest"] > 2 * times["high"]),
        "error between 1e-4 and 1e-3": int(1e-4 < error < 1e-3),
    }
