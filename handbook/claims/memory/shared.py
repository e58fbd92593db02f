"""Models, ledgers and sources that the claims of handbook/memory.md share."""

import functools
from dataclasses import replace
from typing import Any

from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.ledger import Kind, Ledger
from rankzero.ledger.measure import measure
from rankzero.ledger.models import PRESETS, Config, parameter_count
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

ADAMW = OPTIMIZERS["adamw"]
SMALL = GPTConfig(vocab_size=5000)  # the page's model: Lab 02's, with a vocabulary of thousands
STEP: dict[str, Any] = {"batch_size": 12, "seq_len": 64}

ZERO_PAPER = "[ZeRO](https://arxiv.org/abs/1910.02054)"
KORTHIKANTI = "[Korthikanti et al.](https://arxiv.org/abs/2205.05198)"
PLAYBOOK = "[Ultra-Scale Playbook](https://huggingface.co/spaces/nanotron/ultrascale-playbook)"
ALLOCATOR = "[PyTorch](https://github.com/pytorch/pytorch/blob/main/c10/core/AllocatorConfig.h)"


def bytes_of(ledger: Ledger, name: str) -> int:
    """Bytes of the rows with that name."""
    return sum(row.bytes for row in ledger.rows if row.name == name)


def gpt2_step(checkpointing: str) -> Ledger:
    """One step of GPT-2 in fp32, 8 sequences of 1,024 tokens, measured on fake tensors."""
    how = {"batch_size": 8, "seq_len": 1024, "device": "fake", "checkpointing": checkpointing}
    return measure(PRESETS["gpt2"], RECIPES["fp32"], ADAMW, **how)  # type: ignore[arg-type]


@functools.cache
def states(recipe: str, optimizer: str = "adamw") -> Ledger:
    """Returns the ledger of the memory that a step of the small model leaves."""
    return measure(SMALL, RECIPES[recipe], OPTIMIZERS[optimizer], batch_size=1, seq_len=4, peaks=False)


def per_parameter(ledger: Ledger, *kinds: Kind) -> float:
    """Bytes of those kinds over the parameters; AdamW's step counts, 4 bytes per tensor, left out."""
    counts = bytes_of(ledger, "step counts") if Kind.OPTIMIZER in kinds else 0
    return (ledger.total(*kinds) - counts) / parameter_count(SMALL)


def activations(config: Config, recipe: str = "fp32", checkpointing: str = "none") -> Ledger:
    """Returns the ledger of the memory that a step keeps between forward and backward."""
    how: dict[str, Any] = {"device": "fake", "peaks": False, "checkpointing": checkpointing}
    return measure(config, RECIPES[recipe], OPTIMIZERS["sgd"], **STEP, **how)


def of_one_more_layer(recipe: str = "fp32", checkpointing: str = "none") -> int:
    """Bytes that the fifth layer adds."""
    totals = [
        activations(replace(SMALL, n_layer=layers), recipe, checkpointing).total(Kind.ACTIVATIONS) for layers in (4, 5)
    ]
    return totals[1] - totals[0]
