"""Model stages: a model divided by PyTorch as a layout asks, into pipeline stages, tensor-parallel products, shards.

`build_part` makes a run of blocks; `split_products` and `shard_weights` apply DTensor's tensor parallelism and
`fully_shard` to it. On meta tensors that takes a second for 70 billion parameters over 1,024 ranks; on fake or real
ones it makes each rank's part of each tensor, one by one.
"""

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.models import Config, Part, RunAgain, build
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.recipes import Recipe


class NoPositions(nn.Module):
    """Replaces the position embedding on stages after the first, which adds the positions."""

    def forward(self, positions: Tensor) -> float:
        """Returns 0 for any positions."""
        return 0.0


class StageInput(nn.Module):
    """Replaces the token embedding on later stages: returns received activations, of a DTensor this rank's part."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C], or [B, T / ranks, C]"""
        return x.to_local() if isinstance(x, DTensor) else x


def build_part(config: Config, part: Part, checkpointing: str = "none") -> nn.Module:
    """Returns the blocks of `part` and its ends, for tokens [B, T], or on later stages for activations [B, T, C]."""
    model = build(dataclasses.replace(config, n_layer=part.blocks), checkpointing)
    if not part.first:
        model.token_embedding = StageInput()
        if isinstance(config, GPTConfig):
            model.position_embedding = NoPositions()
    if not part.last:
        model.norm, model.head = nn.Identity(), nn.Identity()
    return model


def split_products(model: nn.Module, mesh: DeviceMesh, part: Part, *, sequence: bool = False) -> None:
    """Applies tensor parallelism over `mesh` to a Llama; `sequence` splits norms and residual stream by tokens."""
    stream = Shard(1) if sequence else Replicate()
    norm: dict[str, ParallelStyle] = {"norm": SequenceParallel()} if sequence else {}
    ends: dict[str, ParallelStyle] = {}
    if part.first:
        ends["token_embedding"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=stream)
    if part.last:
        ends |= norm
        ends["head"] = ColwiseParallel(input_layouts=stream, output_layouts=Shard(-1), use_local_output=False)
    parallelize_module(model, mesh, ends)
    for block in model.get_submodule("blocks").children():
        inner = block.block if isinstance(block, RunAgain) else block
        parallelize_module(inner, mesh, _in_block(stream, sequence))


def _in_block(stream: Any, sequence: bool) -> dict[str, ParallelStyle]:
    """Returns the styles of a block: columns, then rows, so that two products need one collective before and after."""
    norms: dict[str, ParallelStyle] = {"norm1": SequenceParallel(), "norm2": SequenceParallel()} if sequence else {}
    return norms | {
        # The input is made a DTensor once, so that the gradients of q, k, v are summed before they are reduced.
        "attention": PrepareModuleInput(
            input_layouts=(stream, None, None), desired_input_layouts=(Replicate(), None, None)
        ),
        "mlp": PrepareModuleInput(input_layouts=(stream,), desired_input_layouts=(Replicate(),)),
        **{f"attention.{name}": ColwiseParallel() for name in "qkv"},
        "attention.proj": RowwiseParallel(output_layouts=stream),
        **{f"mlp.{name}": ColwiseParallel() for name in ("gate", "up")},
        "mlp.down": RowwiseParallel(output_layouts=stream),
    }


def shard_weights(model: nn.Module, mesh: DeviceMesh, layout: Layout, recipe: Recipe, *, prefetch: bool = True) -> None:
    """Applies `fully_shard` to each block, then to the model; `mesh` has one dimension, or two: replicas, shards.

    In backward PyTorch prefetches the unit that ran before the present unit in forward. A pipeline mixes the forwards
    of several micro-batches, so some of these predictions are wrong; with `prefetch` each unit names its predecessor.
    """
    # A recipe that stores no gradients in the dtype of its weights also reduces gradients over ranks in fp32.
    policy = MixedPrecisionPolicy(reduce_dtype=None if recipe.gradient else torch.float32)
    blocks = list(model.get_submodule("blocks").children())
    units = [fully_shard(block, mesh=mesh, reshard_after_forward=layout.reshard, mp_policy=policy) for block in blocks]
    units.append(fully_shard(model, mesh=mesh, reshard_after_forward=False, mp_policy=policy))
    if prefetch:
        for index, unit in enumerate(units):
            unit.set_modules_to_backward_prefetch([units[max(0, index - 1)]])


def parallelize(config: Config, recipe: Recipe, layout: Layout, mesh: DeviceMesh, stage: int) -> nn.ModuleList:
    """Returns the runs of blocks of pipeline rank `stage`, divided for this rank. `mesh`: replica, shard and tensor."""
    runs = nn.ModuleList()
    for chunk in range(layout.interleave):
        part = layout.part(config, stage, chunk)
        model = build_part(config, part, layout.checkpointing)
        if layout.tensor > 1:
            split_products(model, mesh["tensor"], part, sequence=layout.sequence_parallel)
        if layout.zero == 3 and layout.data > 1:
            shard_weights(model, mesh["replica", "shard"] if layout.replicas > 1 else mesh["shard"], layout, recipe)
        runs.append(model)
    return runs


def off_meta(runs: nn.ModuleList) -> None:
    """Moves meta tensors to the CPU, uninitialized; in a fake mode they become fake tensors."""
    tied = [run for run in runs if getattr(run.head, "weight", None) is getattr(run.token_embedding, "weight", 0)]
    runs._apply(lambda tensor: torch.empty_like(tensor, device="cpu"))
    for run in tied:
        run.get_submodule("head").weight = run.get_submodule("token_embedding").weight
