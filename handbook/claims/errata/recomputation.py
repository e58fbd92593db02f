"""Claims of handbook/errata.md, section *Recomputation*."""

from collections.abc import Mapping

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpt2 import gpt2, gpt2_flops
from rankzero.claims.toolkit.kept_bytes import LiveBytes, Recomputed
from rankzero.claims.toolkit.lab_model import SHAPE, next_token_loss
from rankzero.learn.models.gpt import GPT, Block, GPTConfig
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
    "errata-square-root-segments",
    "The peak of 16 transformer blocks in units of one block's input: 4 segments of 4 need twice what 16 of 1 do.",
    expected={"nothing recomputed": 268, "4 segments": 79, "16 segments": 42},
    unit="B·T·C",
    tolerance=3,
)
def square_root_segments() -> Mapping[str, float]:
    """Runs the blocks and counts live bytes. Expected: the inputs of segments, 16 for each block of the segment that is
    recomputed, and about 10 for gradients inside a block: 4 before and 4 after the GELU, 2 around the block."""
    n, config = 16, GPTConfig(vocab_size=1, block_size=256, n_head=1, hidden_dim=64)
    measured = {}
    for name, size in (("nothing recomputed", n), ("4 segments", 4), ("16 segments", 1)):
        blocks = [Block(config) for _ in range(n)]
        parts = [nn.Sequential(*blocks[i : i + size]) for i in range(0, n, size)]
        model = nn.Sequential(*(Recomputed(part) for part in parts) if size < n else parts)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)  # so that gradients are not counted
        x = torch.randn(8, config.block_size, config.hidden_dim, requires_grad=True)
        with LiveBytes() as live:
            model(x).sum().backward()
        measured[name] = live.peak / x.nbytes
    return measured


@claim(
    "errata-unequal-segments",
    "Of 64 blocks, {expected[equal segments]} units are the least peak that equal segments reach. Unequal segments, "
    "the long ones first, reach {expected[unequal segments]}.",
    expected={"8 segments of 8": 136, "equal segments": 64, "unequal segments": 54},
    unit="B·T·C",
)
def unequal_segments() -> Mapping[str, float]:
    """Searches segment lengths. While backward is in segment j, j inputs are alive and 16 units per block of it."""

    def peak(lengths: list[int]) -> int:
        return max(j + 16 * length for j, length in enumerate(lengths, start=1))

    def longest(limit: int) -> int:
        return sum((limit - j) // 16 for j in range(1, limit))  # blocks that fit below a peak of `limit`

    return {
        "8 segments of 8": peak([8] * 8),
        "equal segments": min(peak([64 // n] * n) for n in (1, 2, 4, 8, 16, 32, 64)),
        "unequal segments": next(limit for limit in range(17, 200) if longest(limit) >= 64),
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
