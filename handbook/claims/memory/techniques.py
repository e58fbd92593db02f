"""Claims of handbook/memory.md: what makes memory smaller."""

import functools
import warnings
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import SHAPE
from rankzero.learn.models.gpt import GPT
from rankzero.ledger.ledger import Kind
from rankzero.ledger.measure import measure
from rankzero.ledger.models import parameter_count
from rankzero.ledger.recipes import RECIPES

from .shared import (
    ADAMW,
    KORTHIKANTI,
    SMALL,
    ZERO_PAPER,
    activations,
    gpt2_step,
    of_one_more_layer,
    per_parameter,
    states,
)


@claim(
    "checkpointing-gpt2",
    "With every block recomputed, GPT-2 in fp32 keeps {expected[activations]:.2f} GB of activations for 8 sequences "
    "of 1,024 tokens, and a step peaks at {expected[peak]} GB.",
    expected={"activations": 2.00, "peak": 6.79},
    unit="GB",
    tolerance=0.005,
)
def checkpointing_gpt2() -> dict[str, float]:
    """Measures a step on fake tensors with torch.utils.checkpoint around each block."""
    again = gpt2_step("block")
    return {"activations": again.total(Kind.ACTIVATIONS) / 1e9, "peak": again.peak()[1] / 1e9}


@claim(
    "checkpointing-2sbh",
    "A recomputed block keeps 2sbh bytes in bf16: {expected} for 12 sequences of 64 tokens, 128 wide.",
    expected=2 * 64 * 12 * 128,
    unit="B per block",
    source=KORTHIKANTI,
)
def checkpointing_2sbh() -> float:
    """Measures a GPT of 4 and one of 5 recomputed blocks in bf16, and subtracts."""
    return of_one_more_layer("bf16", "block")


@claim(
    "autocast-activations",
    "Lab 02's GPT keeps {expected[fp32]} MB of activations in fp32, {expected[autocast]} under autocast and "
    "{expected[bf16]} as a bf16 model.",
    expected={"fp32": 26.36, "autocast": 15.16, "bf16": 13.21},
    unit="MB",
    tolerance=0.005,
)
def autocast_activations() -> dict[str, float]:
    """Measures one step of each recipe; autocast keeps sums, norms and the loss in fp32."""
    names = {"fp32": "fp32", "autocast": "amp", "bf16": "bf16"}
    return {name: activations(SHAPE, recipe).total(Kind.ACTIVATIONS) / 1e6 for name, recipe in names.items()}


@claim(
    "zero-grid",
    "ZeRO's states of 7.5 billion parameters, in GB per rank: stages 1, 2 and 3 on 4, 16, 64 and 1,024 ranks.",
    expected={
        "1 on 4": 52.5,
        "2 on 4": 41.25,
        "3 on 4": 30,
        "1 on 16": 35.6,
        "2 on 16": 21.6,
        "3 on 16": 7.5,
        "1 on 64": 31.4,
        "2 on 64": 16.6,
        "3 on 64": 1.9,
        "1 on 1024": 30.1,
        "2 on 1024": 15.1,
        "3 on 1024": 0.1,
    },
    unit="GB",
    tolerance=0.05,
    source=ZERO_PAPER,
)
def zero_grid() -> dict[str, float]:
    """Counts each role of the mixed recipe on a small GPT, and divides it by the ranks from its stage on."""
    return {f"{stage} on {ranks}": zero_gb(stage, ranks) for ranks in (4, 16, 64, 1024) for stage in (1, 2, 3)}


@functools.cache
def counted_roles() -> tuple[float, float, float]:
    """Weights, gradients and optimizer state of the mixed recipe in bytes per parameter, counted on a small GPT."""
    ledger = measure(SHAPE, RECIPES["mixed"], ADAMW, batch_size=1, seq_len=8, peaks=False)
    steps = sum(row.bytes for row in ledger.rows if row.name == "step counts")
    sizes = (ledger.total(kind) for kind in (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER))
    weights, gradients, state = (size / parameter_count(SHAPE) for size in sizes)
    return weights, gradients, state - steps / parameter_count(SHAPE)


def zero_gb(stage: int, ranks: int) -> float:
    """GB per rank for 7.5 billion parameters: each role as counted, divided by the ranks from its stage on."""
    shards = [ranks if stage >= first else 1 for first in (3, 2, 1)]
    return 7.5 * sum(size / shard for size, shard in zip(counted_roles(), shards, strict=True))


@claim(
    "zero-4x-and-8x",
    "On 64 ranks ZeRO-1 saves {expected[stage 1]} times and ZeRO-2 {expected[stage 2]} times; 4 and 8 are limits. "
    "ZeRO-3 saves 64 times.",
    expected={"stage 1": 3.82, "stage 2": 7.21, "stage 3": 64},
    unit="×",
    tolerance=0.005,
)
def zero_4x_and_8x() -> dict[str, float]:
    """Divides the 120 GB of plain data parallelism by what a rank holds in each stage."""
    return {f"stage {stage}": zero_gb(0, 64) / zero_gb(stage, 64) for stage in (1, 2, 3)}


@claim(
    "ddp-buckets",
    "DistributedDataParallel allocates buckets of {expected} bytes per parameter: all fp32 gradients once more.",
    expected=4,
    unit="B per parameter",
    tolerance=0.01,  # its bookkeeping of used parameters is allocated the same way
)
def ddp_buckets() -> float:
    """Wraps the small model, alone in a gloo group, and adds up the bytes that the constructor allocates."""
    model, allocated = GPT(SMALL), Allocations()
    store = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with warnings.catch_warnings(), allocated:
            warnings.simplefilter("ignore")
            DistributedDataParallel(model)
    finally:
        dist.destroy_process_group()
    return allocated.bytes / parameter_count(SMALL)


class Allocations(TorchDispatchMode):
    """While active, adds up the bytes of tensors made empty."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.empty.memory_format:
            self.bytes += out.untyped_storage().nbytes()
        return out


@claim(
    "offload-copies-more",
    "Offloading every saved tensor of Lab 02's step moves {expected[moved]} bytes for {expected[activations]} bytes "
    "of activations.",
    expected={
        "activations": 26_364_420,
        # and attention's output and the log-probabilities a second time, and every weight but the position embedding
        "moved": 26_364_420 + 4 * 12 * 64 * (4 * 128 + 96) + 4 * (12 * 128**2 * 4 + 9 * 128 + 96 * 128),
    },
    unit="B",
)
def offload_copies_more() -> dict[str, float]:
    """Adds up the tensors handed to the hooks with which torch.autograd.graph.save_on_cpu copies, one by one."""
    model, ids, moved = GPT(SHAPE), torch.zeros(12, 64, dtype=torch.int64), 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal moved
        moved += tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    return {"activations": activations(SHAPE).total(Kind.ACTIVATIONS), "moved": moved}


@claim(
    "offload-optimizer",
    "Offloading the optimizer of 7 billion parameters frees {expected[freed]} GB, and moves 14 GB of gradients down "
    "and 14 GB of weights up in each step.",
    expected={"freed": 84, "down": 14, "up": 14},
    unit="GB",
)
def offload_optimizer() -> dict[str, float]:
    """Takes bytes per parameter of the mixed recipe from a measured step: state stays, gradients and weights travel."""
    ledger = states("mixed")
    kinds = {"freed": Kind.OPTIMIZER, "down": Kind.GRADIENTS, "up": Kind.WEIGHTS}
    return {name: 7 * per_parameter(ledger, kind) for name, kind in kinds.items()}
