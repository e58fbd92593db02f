"""Gradient of Lab 03's first batch in fp32, bf16 and fp16, for the lab's page and the chapter on precision."""

import functools

import torch
from torch import Tensor

from rankzero.claims.toolkit.gradients import off_by
from rankzero.claims.toolkit.lab_model import text_batch, text_model
from rankzero.claims.toolkit.starters import starter

FORMATS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@functools.cache
def gradients() -> dict[str, tuple[Tensor, Tensor]]:
    """Format -> the gradient of the first batch without a scale, and with a scale of 65,536 that is divided out."""
    model, batch, compute = text_model(), text_batch(), starter("03").gradient
    return {
        name: (compute(model, *batch, low, 1.0), compute(model, *batch, low, 65536.0)) for name, low in FORMATS.items()
    }


def off_fp32(measured: Tensor) -> float:
    """Length of the difference to the fp32 gradient over the length of the fp32 gradient."""
    return off_by(measured, gradients()["fp32"][0])
