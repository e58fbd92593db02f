"""Claims of handbook/sharding-and-zero.md about `fully_shard`, counted as one of several fake ranks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.optim import AdamW

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.fake_ranks import one_of, order
from rankzero.claims.toolkit.gpt2 import GPT_2
from rankzero.claims.toolkit.kept_bytes import LiveBytes
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.models.gpt import GPT
from rankzero.ledger.measure import local_part, storage_bytes

from .on_ranks import (
    LAYER_BYTES,
    LAYERS,
    SMALL,
    WIDTH,
    layers,
    shard,
    shard_gpt,
    step,
)
from .shared import FULLY_SHARD


def blocks_and_root(model: nn.Sequential, mesh: DeviceMesh) -> None:
    """Every layer is a group."""
    shard(model, model, mesh=mesh)


def kept_whole(model: nn.Sequential, mesh: DeviceMesh) -> None:
    """Every layer is a group that stays whole after the forward pass."""
    shard(model, model, mesh=mesh, reshard_after_forward=False)


def root_forgotten(model: nn.Sequential, mesh: DeviceMesh) -> None:
    """Every layer is a group, but the model is none."""
    for layer in model:
        fully_shard(layer, mesh=mesh)


def root_only(model: nn.Sequential, mesh: DeviceMesh) -> None:
    """The model is one group."""
    fully_shard(model, mesh=mesh)


@claim(
    "prefetch-order",
    "Backward issues the gather of the next layer before the reduce-scatter of this layer's gradients.",
    expected={
        "all-gathers forward": 4,
        "all-gathers before the first reduce-scatter": 6,
        "reduce-scatters at the end": 2,
    },
    unit="collectives",
    source=FULLY_SHARD,
)
def prefetch_order() -> Mapping[str, float]:
    """Runs four sharded layers as one of 4 fake ranks and reads the order of the collectives: GGGG GGRGRGRR."""
    with one_of(4) as mesh:
        model = layers(4)
        blocks_and_root(model, mesh)
        with CollectiveCounter() as counter:
            loss = model(torch.ones(1, WIDTH)).sum()
            forward = len(counter.records)
            loss.backward()
    letters = order(counter)
    return {
        "all-gathers forward": forward,
        "all-gathers before the first reduce-scatter": letters.index("R"),
        "reduce-scatters at the end": len(letters) - len(letters.rstrip("R")),
    }


@claim(
    "root-forgotten",
    "Without fully_shard on the model itself each layer is a root and is not resharded: {expected[without]} "
    "all-gathers, not {expected[with the model]}.",
    expected={"with the model": 8, "without": 4},
    unit="all-gathers",
    source=FULLY_SHARD,
)
def root_is_forgotten() -> Mapping[str, float]:
    """Shards four layers with the defaults, with and without the model around them, and counts."""
    measured = {}
    for name, wrap in (("with the model", blocks_and_root), ("without", root_forgotten)):
        with one_of(4) as mesh:
            model = layers(4)
            wrap(model, mesh)
            with CollectiveCounter() as counter:
                step(model)
        measured[name] = counter.calls["all_gather"]
    return measured


class StepTrace(LiveBytes):
    """Follows the bytes alive over a step, and notes the most since the layer before at each layer's product."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.parameters())
        self.moments: list[float] = []  # in layers: one value per layer of forward, then one per layer of backward

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_dispatch__(func, types, args, kwargs)
        in_forward = len(self.moments) < LAYERS
        if func is torch.ops.aten.mm.default and (in_forward or out.shape == (WIDTH, WIDTH)):  # a gradient in backward
            self.moments.append(self.peak / LAYER_BYTES)
            self.peak = 0
        return out


def moments_in_layers(wrap: Callable[[nn.Sequential, DeviceMesh], None]) -> list[float]:
    """Most bytes alive at each layer of a step of eight layers on one of 4 ranks, in layers."""
    with one_of(4) as mesh:
        model = layers()
        wrap(model, mesh)
        with StepTrace(model) as trace:
            step(model)
    *moments, last = trace.moments
    return [*moments, max(last, trace.peak / LAYER_BYTES)]  # what follows the last product belongs to it


def unsharded(model: nn.Sequential, mesh: DeviceMesh) -> None:
    """Every rank keeps all layers, as with DDP."""


@claim(
    "peak-by-wrapping",
    "Of eight layers on 4 ranks a step holds {expected[each a group]} if each is a group, "
    "{expected[each, kept whole]} if they stay whole, {expected[one group]} if the model is one.",
    expected={"each a group": 7.5, "each, kept whole": 12, "one group": 18, "not sharded": 16},
    tolerance=0.1,  # the row that goes through, and its gradient
    unit="layers",
)
def peak_by_wrapping() -> Charted:
    """Follows every storage through forward and backward; 2 of the layers are the shards, up to 2 their gradients."""
    ways = {
        "each a group": blocks_and_root,
        "each, kept whole": kept_whole,
        "one group": root_only,
        "not sharded": unsharded,
    }
    moments = {name: moments_in_layers(wrap) for name, wrap in ways.items()}
    lines: Mapping[str, Sequence[Point]] = {
        name: [(place, size, size, size) for place, size in enumerate(sizes, 1)] for name, sizes in moments.items()
    }
    chart = Chart("Memory of a step by groups", "product of the step", "weights and gradients, in layers", lines)
    return Charted({name: max(sizes) for name, sizes in moments.items()}, chart)


@claim(
    "smaller-groups-lower-peak",
    "A module of four matrices is whole at once as one group, and a step on 64 ranks holds {expected[one group]} "
    "matrices; with a group per matrix it holds {expected[four groups]}.",
    expected={"one group": 8.1, "four groups": 4.1},
    tolerance=0.05,
    unit="matrices",
)
def smaller_groups() -> Mapping[str, float]:
    """Follows every storage through a step of four layers of 256 by 256 on one of 64 fake ranks, sharded both ways."""
    measured = {}
    for name, wrap in (("one group", root_only), ("four groups", blocks_and_root)):
        with one_of(64) as mesh:
            model = layers(4)
            wrap(model, mesh)
            with LiveBytes(model.parameters()) as live:
                step(model)
        measured[name] = live.peak / LAYER_BYTES
    return measured


@claim(
    "policy-bytes",
    "With weights gathered in bf16 and gradients reduced in fp32 a step moves 8 bytes per parameter; in fp32 12.",
    expected={
        "fp32: gathered": 8,
        "fp32: reduced": 4,
        "bf16: gathered": 4,
        "bf16: reduced": 2,
        "bf16, reduced in fp32: gathered": 4,
        "bf16, reduced in fp32: reduced": 4,
        "weights and gradients kept": 8,
    },
    unit="B per parameter",
)
def policy_bytes() -> Mapping[str, float]:
    """Counts the bytes of the collectives under three policies, and what the rank keeps, times 4 ranks."""
    half, measured = torch.bfloat16, {}
    policies = {
        "fp32": MixedPrecisionPolicy(),
        "bf16": MixedPrecisionPolicy(param_dtype=half),
        "bf16, reduced in fp32": MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32),
    }
    numbers = LAYERS * WIDTH**2
    for name, policy in policies.items():
        with one_of(4) as mesh:
            model = layers()
            shard(model, model, mesh=mesh, mp_policy=policy)
            with CollectiveCounter() as counter:
                step(model)
            kept = storage_bytes(model.parameters()) + storage_bytes(
                [p.grad for p in model.parameters() if p.grad is not None]
            )
        measured[f"{name}: gathered"] = counter.bytes["all_gather"] / numbers
        measured[f"{name}: reduced"] = counter.bytes["reduce_scatter"] / numbers
    return {**measured, "weights and gradients kept": 4 * kept / numbers}


@claim(
    "accumulation-keeps-whole-gradients",
    "Without gradient sync between 4 micro-batches 8 reduce-scatters do instead of "
    "{expected[sync: reduce-scatters]}; the gradients stay whole.",
    expected={
        "sync: reduce-scatters": 32,
        "sync: gradients": 2,
        "no sync: reduce-scatters": 8,
        "no sync: gradients": 8,
        "all-gathers in both": 64,
    },
    tolerance=0.1,
    unit="collectives; gradients in layers",
    source=FULLY_SHARD,
)
def accumulation() -> Mapping[str, float]:
    """Runs 4 micro-batches of eight layers on one of 4 ranks; counts, and follows what is alive between them."""
    measured: dict[str, float] = {}
    for name, sync in (("sync", True), ("no sync", False)):
        with one_of(4) as mesh:
            model: Any = layers()
            blocks_and_root(model, mesh)
            shards = storage_bytes(model.parameters())
            with LiveBytes(model.parameters()) as live, CollectiveCounter() as counter:
                for micro_batch in range(4):
                    model.set_requires_gradient_sync(sync or micro_batch == 3)
                    step(model)
                    if micro_batch == 2:
                        between = live.now() - shards
        measured[f"{name}: reduce-scatters"] = counter.calls["reduce_scatter"]
        measured[f"{name}: gradients"] = between / LAYER_BYTES
        measured["all-gathers in both"] = counter.calls["all_gather"]
    return measured


@claim(
    "optimizer-before-sharding",
    "An optimizer made before fully_shard updates 0 of 8 tensors, without an error, and keeps the whole model alive.",
    expected={
        "before: moved": 0,
        "before: whole layers still held": 8,
        "after: moved": 8,
        "after: whole layers still held": 0,
    },
    unit="",
)
def optimizer_before_sharding() -> Mapping[str, float]:
    """Makes AdamW before and after sharding over 4 fake ranks, takes a step, and compares shards and live bytes."""
    measured: dict[str, float] = {}
    for name in ("before", "after"):
        with one_of(4) as mesh:
            model = layers()
            live = LiveBytes(model.parameters())
            optimizer = AdamW(model.parameters()) if name == "before" else None
            blocks_and_root(model, mesh)
            optimizer = optimizer or AdamW(model.parameters())
            held = live.now()
            start = [local_part(p).clone() for p in model.parameters()]
            step(model)
            optimizer.step()
            moved = [not torch.equal(old, local_part(p)) for old, p in zip(start, model.parameters(), strict=True)]
        measured[f"{name}: moved"] = sum(moved)
        measured[f"{name}: whole layers still held"] = held / LAYER_BYTES
    return measured


@claim(
    "frozen-layers",
    "Frozen layers send no gradients; in backward they are gathered if a layer below them trains.",
    expected={
        "none: all-gathers": 16,
        "none: reduce-scatters": 8,
        "first half: all-gathers": 13,
        "first half: reduce-scatters": 4,
        "second half: all-gathers": 16,
        "second half: reduce-scatters": 4,
    },
    unit="collectives",
)
def frozen_layers() -> Mapping[str, float]:
    """Freezes none, the first or the last four of eight layers and counts; one prefetched layer is not used."""
    measured: dict[str, float] = {}
    for name, frozen in (("none", slice(0)), ("first half", slice(4)), ("second half", slice(4, 8))):
        with one_of(4) as mesh:
            model = layers()
            model[frozen].requires_grad_(False)
            blocks_and_root(model, mesh)
            with CollectiveCounter() as counter:
                step(model)
        measured[f"{name}: all-gathers"] = counter.calls["all_gather"]
        measured[f"{name}: reduce-scatters"] = counter.calls["reduce_scatter"]
    return measured


@claim(
    "tied-in-two-groups",
    "A tied matrix stays one if both its modules are in one group; in two groups the forward pass refuses.",
    expected={"one group: tensors": 1, "one group: runs": 1, "two groups: tensors": 2, "two groups: runs": 0},
    unit="",
)
def tied_weights() -> Mapping[str, float]:
    """Shards a GPT's embedding and output layer with the root, and each on its own; counts tensors and runs it."""
    measured: dict[str, float] = {}
    for name in ("one group", "two groups"):
        with one_of(4) as mesh:
            model = GPT(SMALL)
            apart = [model.token_embedding, model.head] if name == "two groups" else []
            shard(model, [*apart, *model.blocks], mesh=mesh)
            measured[f"{name}: tensors"] = len({id(model.token_embedding.weight), id(model.head.weight)})
            try:
                model(torch.zeros(1, 4, dtype=torch.int64))
                measured[f"{name}: runs"] = 1
            except ValueError as error:
                assert "shared with a parameter already managed by another FSDP group" in str(error)  # noqa: PT017
                measured[f"{name}: runs"] = 0
    return measured


@claim(
    "hybrid-two-by-two",
    "On 2 × 2 ranks a rank keeps half of the weights, and all-reduces only its half of the gradients across replicas.",
    expected={"kept": 0.5, "all-gather, of 2": 2, "reduce-scatter, of 2": 1, "all-reduce, of 2": 0.5},
    unit="times the model",
    source=FULLY_SHARD,
)
def hybrid() -> Mapping[str, float]:
    """Shards eight layers over one dimension of a mesh of 2 by 2 fake ranks; counts bytes and group sizes."""
    with one_of(2, 2) as mesh:
        model = layers()
        blocks_and_root(model, mesh)
        with CollectiveCounter() as counter:
            step(model)
        assert {record.ranks for record in counter.records} == {2}
        whole = LAYERS * LAYER_BYTES
        return {
            "kept": storage_bytes(model.parameters()) / whole,
            **{
                f"{name.replace('_', '-')}, of 2": counter.bytes[name] / whole
                for name in ("all_gather", "reduce_scatter", "all_reduce")
            },
        }


def padded(make: Callable[[], nn.Module], ranks: int) -> float:
    """Bytes that a rank keeps, times the ranks, over the model's."""
    with one_of(ranks) as mesh, FakeTensorMode():
        module = make()
        whole = sum(parameter.nbytes for parameter in module.parameters())
        shard(module, module.blocks if isinstance(module, GPT) else [], mesh=mesh)
        return ranks * storage_bytes(module.parameters()) / whole


@claim(
    "padding-of-rows",
    "fully_shard pads each tensor's rows to a multiple of the ranks: GPT-2 on 64 pays 0.03 %, 768 rows on 512 33 %.",
    expected={"GPT-2 on 64": 1.0003, "768 rows on 512": 4 / 3, "1 row on 4": 4},
    tolerance=0.00005,
    unit="times the bytes",
)
def padding_of_rows() -> Mapping[str, float]:
    """Shards over fake ranks, without data, and adds up the storages of one of them."""
    return {
        "GPT-2 on 64": padded(lambda: GPT(GPT_2), 64),
        "768 rows on 512": padded(lambda: nn.Linear(768, 768, bias=False), 512),
        "1 row on 4": padded(lambda: nn.Linear(768, 1, bias=False), 4),
    }


@claim(
    "rows-of-a-rank",
    "Ten rows on 4 ranks are 3, 3, 3 and 1; five are 2, 2, 1 and none.",
    expected={
        "10 rows, rank 0": 3,
        "10 rows, rank 3": 1,
        "5 rows, rank 0": 2,
        "5 rows, rank 2": 1,
        "5 rows, rank 3": 0,
    },
    unit="rows",
    source=FULLY_SHARD,
)
def rows_of_a_rank() -> Mapping[str, float]:
    """Shards a layer of 10 and one of 5 rows, as each of the ranks, and looks at the local part."""
    measured: dict[str, float] = {}
    for rows, rank in ((10, 0), (10, 3), (5, 0), (5, 2), (5, 3)):
        with one_of(4, rank=rank) as mesh:
            layer = nn.Linear(16, rows, bias=False)
            fully_shard(layer, mesh=mesh)
            measured[f"{rows} rows, rank {rank}"] = local_part(layer.weight).shape[0]
    return measured


@claim(
    "compiler-sees-no-collective",
    "Compiled after sharding, a GPT splits into {expected[graphs, sharded]} graphs without a collective, and "
    "fullgraph refuses.",
    expected={
        "graphs, unsharded": 1,
        "graphs, sharded": 3,
        "collectives in them": 0,
        "fullgraph refuses": 1,
        "graphs of all blocks, compiled first": 1,
    },
    unit="",
    source="[PyTorch](https://github.com/pytorch/pytorch/pull/174863)",
)
def compiler_sees_no_collective() -> Mapping[str, float]:
    """Compiles a small GPT with a backend that notes each graph, as one of 4 fake ranks, before and after sharding.

    Blocks that are alike share a graph.
    """
    from torch._dynamo.exc import Unsupported  # the compiler takes a second to import

    graphs: list[torch.fx.GraphModule] = []

    def note(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    def run(model: Callable[..., Any]) -> int:
        graphs.clear()
        torch._dynamo.reset()
        model(torch.zeros(1, 4, dtype=torch.int64))
        return len(graphs)

    measured: dict[str, float] = {"graphs, unsharded": run(torch.compile(GPT(SMALL), backend=note, fullgraph=True))}
    with one_of(4) as mesh:
        model = GPT(SMALL)
        shard_gpt(model, mesh=mesh)
        measured["graphs, sharded"] = run(torch.compile(model, backend=note))
        calls = [str(node.target) for graph in graphs for node in graph.graph.nodes if node.op.startswith("call")]
        measured["collectives in them"] = sum("all_gather" in name or "c10d" in name for name in calls)
        try:
            run(torch.compile(model, backend=note, fullgraph=True))
            measured["fullgraph refuses"] = 0
        except Unsupported:
            measured["fullgraph refuses"] = 1
        model = GPT(SMALL)
        compiled: list[Any] = [torch.compile(block, backend=note, fullgraph=True) for block in model.blocks]
        model.blocks = nn.ModuleList(compiled)
        shard_gpt(model, mesh=mesh)
        measured["graphs of all blocks, compiled first"] = run(model)
    return measured


class Pair(nn.Module):
    """An MLP without bias; attention has the same two products for this count."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 256, bias=False), nn.Linear(256, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, T, C]"""
        return self.down(self.up(x).relu())


@claim(
    "tensor-parallel-four-all-reduces",
    "Tensor parallelism all-reduces activations 4 times per layer and step; sequence parallelism halves each.",
    expected={"tensor: all-reduces": 4, "sequence: all-gathers": 4, "sequence: reduce-scatters": 4},
    unit="collectives per layer",
    source="[Korthikanti et al.](https://arxiv.org/abs/2205.05198)",
)
def tensor_parallel_all_reduces() -> Mapping[str, float]:
    """Splits two pairs of matrices by columns and rows over 4 fake ranks, forward and backward; counts collectives.

    Without sequence parallelism each rank has every token between the pairs, with it a quarter of them.
    """
    tensor = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    sequence = {"up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1))}
    measured: dict[str, float] = {}
    for name, plan, tokens in (("tensor", tensor, 8), ("sequence", sequence, 2)):
        with one_of(4) as mesh:
            layer = nn.Sequential(Pair(), Pair())
            for pair in layer:
                parallelize_module(pair, mesh, plan)
            x = torch.ones(1, tokens, 64, requires_grad=True)
            with CommDebugMode() as collectives:
                layer(x).sum().backward()
                x.grad.sum().item()  # type: ignore[union-attr]  # waits for the last collective
        for kind, count in collectives.get_comm_counts().items():
            short = str(kind).split(".")[1].split("_into")[0].split("_tensor")[0].split("'")[0]
            measured[f"{name}: {short.replace('_', '-')}s"] = count
    return measured
