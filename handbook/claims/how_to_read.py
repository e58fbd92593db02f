"""Claims of handbook/how-to-read.md."""

from collections.abc import Mapping

import torch
from torch.optim import AdamW
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import make_batch, make_model, token_loss


@claim(
    "eighty-gb-in-gib",
    "80 GB are {expected} GiB.",
    expected=74.5,
    tolerance=0.05,
    unit="GiB",
)
def eighty_gb() -> float:
    """Makes a tensor of 80·10⁹ bytes that has no data and divides its size by 2³⁰."""
    return torch.empty(80 * 10**9, dtype=torch.uint8, device="meta").nbytes / 2**30


@claim(
    "matrix-product-2mkn",
    "A product of matrices [m, k] and [k, n] takes 2·m·k·n FLOPs.",
    expected={"[768, 128] by [128, 512]": 2 * 768 * 128 * 512, "[1000, 1000] by [1000, 1000]": 2 * 10**9},
    unit="FLOPs",
)
def matrix_product() -> Mapping[str, float]:
    """Multiplies matrices without data under PyTorch's FLOP counter."""
    flops = {}
    for m, k, n in ((768, 128, 512), (1000, 1000, 1000)):
        with FlopCounterMode(display=False) as counter:
            torch.empty(m, k, device="meta") @ torch.empty(k, n, device="meta")
        flops[f"[{m}, {k}] by [{k}, {n}]"] = counter.get_total_flops()
    return flops


@claim(
    "same-seed-same-losses",
    "On a CPU, the same seed gives the same losses to the last bit.",
    expected=0,
    unit="of 5 losses differ",
)
def same_seed() -> float:
    """Trains Lab 02's GPT for five steps twice and counts the losses that differ in any bit."""

    def losses() -> list[float]:
        model, batch, found = make_model(), make_batch(), []
        optimizer = AdamW(model.parameters(), lr=1e-3)
        for _ in range(5):
            optimizer.zero_grad()
            loss = token_loss(model, *batch)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    return sum(a != b for a, b in zip(losses(), losses(), strict=True))
