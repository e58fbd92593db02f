"""Claims of handbook/errata.md, section *Recomputation*."""

from collections.abc import Mapping

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpt2 import gpt2, gpt2_flops
from rankzero.claims.toolkit.lab_model import SHAPE, next_token_loss
from rankzero.learn.models.gpt import GPT
from rankzero.ledger.measure import SavedTensors

from .shared import GIB


@claim(
    "errata-checkpointing-flops",
    "Recomputing GPT-2's blocks costs {expected[blocks]} % more FLOPs, {expected[blocks, early stop]} % with the "
    "early stop; the whole forward {expected[whole forward]} %.",
    expected={"blocks": 24.3, "blocks, early stop": 17.7, "whole forward": 33.3},
    unit="% more FLOPs",
    tolerance=0.05,
)
def checkpointing_flops() -> Mapping[str, float]:
    """Counts forward and backward of GPT-2's shape on 1,024 fake tokens under each policy."""
    plain = gpt2_flops()
    counts = {
        "blocks": gpt2_flops("blocks"),
        "blocks, early stop": gpt2_flops("blocks", early_stop=True),
        "whole forward": gpt2_flops("all"),
    }
    return {name: 100 * (count / plain - 1) for name, count in counts.items()}


def gpt2_activations(recompute: str, backend: SDPBackend) -> float:
    """GiB that the forward pass of GPT-2's shape leaves, B 8, T 1,024, fp32, loss included."""
    with FakeTensorMode(), sdpa_kernel(backend):
        model, tokens = gpt2(recompute), torch.zeros(8, 1025, dtype=torch.int64)
        saved = SavedTensors(model)
        with saved.active():
            next_token_loss(model, tokens)
    return sum(saved.by_module.values()) / GIB


@claim(
    "errata-checkpointing-memory",
    "What GPT-2's forward pass leaves (B 8, T 1,024, fp32), with each block recomputed or not.",
    expected={"fused attention": 6.09, "attention by the formula": 10.58, "blocks recomputed": 1.86},
    unit="GiB",
    tolerance=0.005,
)
def checkpointing_memory() -> Mapping[str, float]:
    """Adds up the tensors that autograd keeps, on fake tensors, memory that several share counted once."""
    return {
        "fused attention": gpt2_activations("", SDPBackend.FLASH_ATTENTION),
        "attention by the formula": gpt2_activations("", SDPBackend.MATH),
        "blocks recomputed": gpt2_activations("blocks", SDPBackend.FLASH_ATTENTION),
    }


@claim(
    "errata-backward-twice-forward",
    "Backward takes twice the FLOPs of forward in a GPT, but only as many if the first layer is most of a network.",
    expected={"GPT": 2, "MLP 784-256-10": 1.01},
    unit="times forward",
    tolerance=0.005,
)
def backward_twice_forward() -> Mapping[str, float]:
    """Counts the FLOPs of forward and of backward for Lab 02's GPT and for a small classifier of images."""
    tokens = torch.zeros(2, 64, dtype=torch.int64)
    mlp = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    measured = {}
    for name, model, x in (("GPT", GPT(SHAPE), tokens), ("MLP 784-256-10", mlp, torch.randn(2, 784))):
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            out = model(x)
            forward = counter.get_total_flops()
            out.sum().backward()
        measured[name] = counter.get_total_flops() / forward - 1
    return measured
