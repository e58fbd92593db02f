"""Claims of handbook/errata.md, section *Precision*."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpt2 import GPT_2
from rankzero.claims.toolkit.gradients import gradient
from rankzero.claims.toolkit.lab_model import SHAPE, next_token_loss, seeded_gpt
from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.ledger import Kind, Ledger
from rankzero.ledger.measure import measure
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

from .shared import states


@claim(
    "errata-cuda-amp-autocast",
    "torch.cuda.amp.autocast(device_type=...) raises TypeError; torch.amp.autocast takes the device.",
    expected=True,
    unit="",
)
def cuda_amp_autocast() -> bool:
    """Calls both as the text prints them."""
    with warnings.catch_warnings(action="ignore"):  # the old one warns that it is deprecated
        try:
            torch.cuda.amp.autocast(device_type="cuda", dtype=torch.float16)  # type: ignore[call-arg]
        except TypeError:
            torch.amp.autocast(device_type="cuda", dtype=torch.float16)
            return True
    return False


@claim(
    "errata-smallest-exponent",
    "The smallest power of two that survives: 2^-24 in fp16, 2^-133 in bf16, 2^-149 in fp32.",
    expected={"fp16": -24, "bf16": -133, "fp32": -149},
    unit="",
)
def smallest_exponent() -> Mapping[str, float]:
    """Casts powers of two from fp64, each half of the last, until one becomes zero."""
    measured = {}
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16), ("fp32", torch.float32)):
        powers = torch.ldexp(torch.ones(200, dtype=torch.float64), -torch.arange(200))
        measured[name] = -(int((powers.to(dtype) > 0).sum()) - 1)
    return measured


@claim(
    "errata-fp16-overflows-to-inf",
    "65,519 becomes 65,504 in fp16, 65,520 becomes inf; NaN comes later, from inf - inf.",
    expected=True,
    unit="",
)
def fp16_overflows_to_inf() -> bool:
    """Casts both numbers, then subtracts."""
    below, above = torch.tensor([65519.0, 65520.0]).half()
    return below.item() == 65504 and above.item() == math.inf and math.isnan((above - above).item())


@claim(
    "errata-gradients-flushed",
    "Gradients of Lab 02's first step in fp16: {expected[below 6.1e-5]:.0f} % are below 6.1e-5, "
    "{expected[zero in fp16]} % become zero; scaled by 65,536 none does.",
    expected={"below 6.1e-5": 22.77, "zero in fp16": 0.04, "zero in fp16, scaled": 0, "zero in bf16": 0},
    unit="% of gradients",
    tolerance=0.01,
)
def gradients_flushed() -> Mapping[str, float]:
    """Casts the fp32 gradients of a seeded model on random tokens and counts zeros that were not zero before."""
    model, tokens = seeded_gpt(SHAPE, double=False)
    g = gradient(model, lambda: next_token_loss(model, tokens))
    g = g[g != 0]

    def percent(which: Tensor) -> float:
        return 100 * float(which.double().mean())

    scaled = (g * 65536).half()
    assert scaled.isfinite().all()
    return {
        "below 6.1e-5": percent(g.abs() < torch.finfo(torch.float16).smallest_normal),
        "zero in fp16": percent(g.half() == 0),
        "zero in fp16, scaled": percent(scaled == 0),
        "zero in bf16": percent(g.bfloat16() == 0),
    }


def gpt2_ledger(recipe: str) -> Ledger:
    """A step of GPT-2's shape on 8 sequences of 1,024 tokens, on fake tensors."""
    fields: dict[str, Any] = {"batch_size": 8, "seq_len": 1024, "device": "fake", "peaks": False}
    return measure(GPT_2, RECIPES[recipe], OPTIMIZERS["adamw"], **fields)


@claim(
    "errata-autocast-memory",
    "Autocast to bf16 makes GPT-2's activations {expected[activations, times less]} times smaller, weights, "
    "gradients and state {expected[states, times more]} times larger.",
    expected={"activations, times less": 1.48, "in the blocks, times less": 1.78, "states, times more": 1.12},
    unit="",
    tolerance=0.005,
)
def autocast_memory() -> Mapping[str, float]:
    """Counts a step of GPT-2's shape, B 8, T 1,024, in fp32 and under autocast, copies of the weights included."""
    fp32, amp = gpt2_ledger("fp32"), gpt2_ledger("amp")
    blocks = [
        sum(row.bytes for row in ledger.rows if row.kind is Kind.ACTIVATIONS and row.name.startswith("blocks."))
        for ledger in (fp32, amp)
    ]
    return {
        "activations, times less": fp32.total(Kind.ACTIVATIONS) / amp.total(Kind.ACTIVATIONS),
        "in the blocks, times less": blocks[0] / blocks[1],
        "states, times more": sum(states(amp).values()) / sum(states(fp32).values()),
    }


@claim(
    "errata-tensor-core-peaks",
    "By the data sheet, an A100's 16-bit peak is {expected[over fp32]} times its fp32 peak and {expected[over TF32]} "
    "times its TF32 peak.",
    expected={"over fp32": 16, "over TF32": 2},
    unit="times the peak",
    source="[NVIDIA](https://www.nvidia.com/en-us/data-center/a100/)",
)
def tensor_core_peaks() -> Mapping[str, float]:
    """Divides the dense peaks of the library's data sheet."""
    fp32, tf32, half = HARDWARE["a100"].peaks
    return {"over fp32": half / fp32, "over TF32": half / tf32}
