"""Collective traffic of one optimizer step: the calls and bytes of every collective of one rank.

As in PyTorch: `DistributedDataParallel` (ZeRO 0), `fully_shard` on each block and then on the model (ZeRO 3, on a
two-dimensional mesh with replicas), DTensor's tensor and sequence parallelism, point-to-point pipelines. ZeRO 1 and 2
are the paper's: gradients reduce-scattered, updated weights all-gathered; no PyTorch class does exactly this.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rankzero.learn.distributed.collectives import RING
from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.activations import sizes_of
from rankzero.ledger.models import Config, Part, Weight, weights_of
from rankzero.ledger.plan import pipeline_schedule
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.shard_buffers import units_of
from rankzero.ledger.predict import held_gradient
from rankzero.ledger.recipes import Recipe

MIB = 2**20
FIRST_BUCKET, BUCKET = 1 * MIB, 25 * MIB  # DDP's defaults
Operation = Literal["all_gather", "reduce_scatter", "all_reduce", "send"]  # as learn.collectives counts them
Group = Literal["shard", "replica", "tensor", "pipeline", "ends"]
Window = Literal["", "forward", "backward", "last backward"]


@dataclass(frozen=True)
class Collective:
    """One kind of collective in one step. A call's bytes are those of its larger tensor."""

    operation: Operation
    group: Group
    what: str  # the key of `rankzero plan --json`
    ranks: int
    calls: int
    bytes: int  # of all calls
    formula: str
    hides: Window = ""  # the computation that can run at the same time

    @property
    def sent(self) -> int:
        """Bytes that a rank sends in a ring: n-1 of n parts, in an all-reduce twice; point to point all n."""
        return round(self.bytes * RING[self.operation](self.ranks))


def collectives(
    config: Config, recipe: Recipe, layout: Layout, *, batch_size: int, seq_len: int, stage: int = 0
) -> list[Collective]:
    """Returns the collectives of one optimizer step on a rank of `stage`: all micro-batches, and the update."""
    part = layout.part(config, stage)
    candidates = [
        *_of_data(config, recipe, layout, part, stage),
        *_of_tensor(config, recipe, layout, part, batch_size * seq_len),
        *_of_pipeline(config, recipe, layout, stage, batch_size * seq_len),
    ]
    return [collective for collective in candidates if collective.calls and collective.ranks > 1]


Totals = dict[tuple[str, int], tuple[int, int]]


def totals(collectives: Iterable[Collective]) -> Totals:
    """Returns calls and bytes by operation and number of ranks: groups of one size are one row."""
    return summed((c.operation, c.ranks, c.calls, c.bytes) for c in collectives)


def summed(counts: Iterable[tuple[str, int, int, int]]) -> Totals:
    """Returns the sums of calls and bytes by operation and number of ranks."""
    sums: Totals = {}
    for operation, ranks, more_calls, more_bytes in counts:
        calls, size = sums.get((operation, ranks), (0, 0))
        sums[operation, ranks] = calls + more_calls, size + more_bytes
    return sums


# ------------------------------------------------------------------------------------------------------- data and shard
def ddp_buckets(gradients: Iterable[int], first: int = FIRST_BUCKET, then: int = BUCKET) -> list[int]:
    """Returns the bytes of DDP's buckets for gradients of these bytes, in the order in which backward makes them.

    A bucket is closed by the gradient that fills it, so a bucket may exceed the cap. Valid after the first step; in the
    first step the order is the reversed order of the parameters.
    """
    buckets, filling, cap = [], 0, first
    for size in gradients:
        filling += size
        if filling >= cap:
            buckets.append(filling)
            filling, cap = 0, then
    return [*buckets, filling] if filling else buckets


def in_order_of_backward(weights: list[Weight]) -> Iterator[Weight]:
    """Yields each tensor in the order in which gradients become ready: from the end of the model to its beginning."""
    blocks = [weight for weight in weights if weight.in_block]
    after = [weight for weight in weights if not weight.in_block and weight.group in ("norms", "output layer")]
    yield from reversed(after)
    for _ in range(blocks[0].copies):
        yield from reversed(blocks)
    yield from reversed([weight for weight in weights if weight not in (*blocks, *after)])


def _of_data(config: Config, recipe: Recipe, layout: Layout, part: Part, stage: int) -> Iterator[Collective]:
    weights, m, shards = weights_of(config, part), layout.micro_batches, layout.shards
    size = recipe.gradient or recipe.accumulator
    if layout.zero == 0:
        sizes = (
            (held_gradient(weight, layout) // weight.copies if recipe.gradient else weight.numbers(layout.tensor))
            for weight in in_order_of_backward(weights)
        )
        buckets = ddp_buckets(numbers * size for numbers in sizes)
        yield Collective(
            "all_reduce", "replica", "gradients, in buckets", layout.data, len(buckets), sum(buckets),
            f"{size} B per parameter, once per step", "last backward",
        )  # fmt: skip
    elif layout.zero == 3:
        yield from _of_fully_shard(recipe, layout, weights, stage, size)
    else:
        padded = sum(-(-w.numbers(layout.tensor) // shards) * shards * w.copies for w in weights)
        times = m if layout.zero == 2 else 1  # gradients of ZeRO 1 are whole, and add up where they are
        often = "per micro-batch" if layout.zero == 2 else "per step"
        hides: Window = "backward" if layout.zero == 2 else "last backward"
        yield Collective(
            "reduce_scatter", "shard", "gradients", shards, times, times * padded * size,
            f"{size} B per parameter, once {often}", hides,
        )  # fmt: skip
        yield Collective(
            "all_reduce", "replica", "gradient shards", layout.replicas, 1, padded * size // shards,
            f"{size} B per parameter of the shard, once per step", "last backward",
        )  # fmt: skip
        yield Collective(
            "all_gather", "shard", "updated weights", shards, 1, padded * recipe.weight,
            f"{recipe.weight} B per parameter, once per step",
        )  # fmt: skip
    if isinstance(config, GPTConfig) and part.first != part.last:
        numbers = next(w for w in weights if w.group == "token embedding").shard(layout.tensor, shards)
        yield Collective(
            "all_reduce", "ends", "gradient of the tied embedding", 2, 1, numbers * size, f"{numbers:,} · {size} B"
        )


def _of_fully_shard(
    recipe: Recipe, layout: Layout, weights: list[Weight], stage: int, size: int
) -> Iterator[Collective]:
    order = pipeline_schedule.order(stage, layout.pipeline, layout.micro_batches, layout.interleave)
    for unit in units_of(weights, layout):
        block = unit.name == "block"
        name = "blocks" if block else "embeddings and output layer"
        times = pipeline_schedule.gathers(order, keeps=not (block and layout.reshard))
        chunks = range(layout.interleave) if block else [0 if stage == 0 else layout.interleave - 1]
        directions: tuple[Window, ...] = ("forward", "backward")
        for hides in directions:
            calls = sum(times[hides == "forward", chunk] for chunk in chunks) * unit.copies // len(chunks)
            yield Collective(
                "all_gather", "shard", f"weights of {name}, {hides}", layout.shards, calls,
                calls * unit.numbers * recipe.weight, f"{calls} · {unit.numbers:,} · {recipe.weight} B", hides,
            )  # fmt: skip
        calls = layout.micro_batches * unit.copies
        yield Collective(
            "reduce_scatter", "shard", f"gradients of {name}", layout.shards, calls, calls * unit.numbers * size,
            f"{calls} · {unit.numbers:,} · {size} B", "backward",
        )  # fmt: skip
        yield Collective(
            "all_reduce", "replica", f"gradient shards of {name}", layout.replicas, calls,
            calls * unit.numbers // layout.shards * size, f"{calls} · {unit.numbers // layout.shards:,} · {size} B",
            "backward",
        )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- tensor
def _of_tensor(config: Config, recipe: Recipe, layout: Layout, part: Part, tokens: int) -> Iterator[Collective]:
    if layout.tensor == 1:
        return
    m, blocks, sizes = layout.micro_batches, part.blocks, sizes_of(recipe)
    stream = tokens * config.hidden_dim * sizes.compute
    recompute = layout.checkpointing == "block"  # recomputation stops at the last tensor that backward needs

    def make(operation: Operation, purpose: str, times: int, size: int, formula: str) -> Collective:
        return Collective(
            operation, "tensor", purpose, layout.tensor, m * times, m * times * size, f"{m * times} · {formula}"
        )

    symbols = f"B·T·C·{sizes.compute}"
    if layout.sequence_parallel:
        gathers = blocks * (4 + 2 * recompute) + part.first + part.last
        scatters = blocks * (4 + recompute) + part.first + part.last
        yield make("all_gather", "activations into products", gathers, stream, symbols)
        yield make("reduce_scatter", "activations after products", scatters, stream, symbols)
        size = recipe.gradient or recipe.weight
        norms = (2 * blocks + part.last) * (m if layout.zero == 3 or recipe.accumulator else 1)  # or once per step
        yield Collective(
            "all_reduce", "tensor", "gradients of norms", layout.tensor, norms, norms * config.hidden_dim * size,
            f"{norms} · C·{size}",
        )  # fmt: skip
    else:
        times = blocks * (4 + recompute) + part.first + part.last
        yield make("all_reduce", "activations", times, stream, symbols)
    if part.last:
        yield make("all_reduce", "loss: maximum", 1, tokens * sizes.loss, f"B·T·{sizes.loss}")
        yield make("all_reduce", "loss: sum, score of the target", 2, tokens * 4, "B·T·4")


# ------------------------------------------------------------------------------------------------------------ pipeline
def _of_pipeline(config: Config, recipe: Recipe, layout: Layout, stage: int, tokens: int) -> Iterator[Collective]:
    sizes, runs, last = sizes_of(recipe), layout.interleave, stage == layout.pipeline - 1
    split = layout.tensor if layout.sequence_parallel else 1
    size = -(-tokens // split) * config.hidden_dim * sizes.residual
    for purpose, times in (("activations", runs - last), ("their gradients", runs - (stage == 0))):
        calls = layout.micro_batches * times
        formula = f"{calls} · B·T·C·{sizes.residual}" + (f"/{split}" if split > 1 else "")
        yield Collective("send", "pipeline", purpose, layout.pipeline, calls, calls * size, formula)
