"""Claims of handbook/batch-size-and-scaling.md: the device."""

from collections.abc import Mapping

import torch
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim


@claim(
    "intensity-grows-with-rows",
    "A bf16 product with a 4096 × 4096 matrix does {expected[1 row]} FLOP a byte for one row, {expected[128 rows]} "
    "for 128, {expected[4096 rows]} for 4,096.",
    expected={"1 row": 1, "128 rows": 120, "342 rows": 293, "4096 rows": 1365},
    tolerance=0.5,
    unit="FLOPs a byte",
)
def intensity() -> Mapping[str, float]:
    """Counts the product's FLOPs with PyTorch's counter and the bytes of its three matrices, each moved once."""
    measured = {}
    for rows in (1, 128, 342, 4096):
        x, w = (torch.empty(n, 4096, dtype=torch.bfloat16, device="meta") for n in (rows, 4096))
        with FlopCounterMode(display=False) as counter:
            y = x @ w
        name = f"{rows} row{'s' if rows > 1 else ''}"
        measured[name] = counter.get_total_flops() / (x.nbytes + w.nbytes + y.nbytes)
    return measured
