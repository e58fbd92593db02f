"""Claims of handbook/precision.md: the loss scaler."""

import math
from collections.abc import Mapping

import torch

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import text_batch, text_model
from rankzero.claims.toolkit.low_precision import gradients
from rankzero.claims.toolkit.starters import starter


@claim(
    "precision-gradscaler-defaults",
    "torch.amp.GradScaler starts at {expected[start]}, doubles after {expected[interval]} good steps, halves after "
    "an overflow, and skips that step; it works on the CPU.",
    expected={"start": 65536, "growth": 2, "interval": 2000, "after an overflow": 32768, "weight moved": 0},
    unit="",
    source="https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling",
)
def gradscaler_defaults() -> Mapping[str, float]:
    """Asks a new scaler, then hands it a weight with an infinite gradient and asks again."""
    scaler = torch.amp.GradScaler("cpu")
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    start = scaler.scale(torch.ones(1)).item()
    weight.grad = torch.tensor([math.inf])
    scaler.step(optimizer)
    scaler.update()
    return {
        "start": start,
        "growth": scaler.get_growth_factor(),
        "interval": scaler.get_growth_interval(),
        "after an overflow": scaler.get_scale(),
        "weight moved": weight.item() - 1,
    }


@claim(
    "precision-unscale-twice-raises",
    "GradScaler.unscale_ raises when it is called a second time before update.",
    expected=True,
    unit="",
)
def unscale_twice_raises() -> bool:
    """Calls it twice on one gradient and looks whether that was divided once."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler.scale(torch.ones(1))
    weight.grad = torch.tensor([4.0])
    scaler.unscale_(optimizer)
    try:
        scaler.unscale_(optimizer)
    except RuntimeError:
        return weight.grad.item() == 1
    return False


@claim(
    "precision-not-a-power-of-two",
    "A scale of 50,000, divided out again, changes the last digits of nine gradients in ten in fp32; one of 65,536 "
    "changes none.",
    expected={"50,000": 91, "65,536": 0},
    tolerance=6,
    unit="% of gradients",
)
def not_a_power_of_two() -> Mapping[str, float]:
    """Computes the gradient of Lab 03's first batch with each scale. The tolerance is for other CPUs' rounding."""
    exact, scaled = gradients()["fp32"]
    other = starter("03").gradient(text_model(), *text_batch(), None, 50_000.0)
    there = exact != 0
    return {
        "50,000": 100 * float((other[there] != exact[there]).double().mean()),
        "65,536": 100 * float((scaled[there] != exact[there]).double().mean()),
    }


@claim(
    "precision-unscale-fp16",
    "GradScaler refuses gradients of fp16 weights with 'Attempting to unscale FP16 gradients.', and accepts those of "
    "fp32 weights.",
    expected={"fp16 weights refused": 1, "fp32 weights refused": 0},
    unit="1: ValueError",
)
def unscale_fp16() -> Mapping[str, float]:
    """Unscales the gradient of one weight of each dtype, and looks for the error's text."""

    def refused(dtype: torch.dtype) -> int:
        weight = torch.nn.Parameter(torch.ones(1, dtype=dtype))
        scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD([weight], lr=0.1)
        scaler.scale(weight.sum()).backward()
        try:
            scaler.unscale_(optimizer)
        except ValueError as error:
            return int("Attempting to unscale FP16 gradients" in str(error))
        return 0

    return {"fp16 weights refused": refused(torch.float16), "fp32 weights refused": refused(torch.float32)}
