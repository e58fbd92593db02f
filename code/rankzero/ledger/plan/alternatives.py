"""Alternatives to a plan that does not fit: changes that make it fit, each found by planning it, cheapest first."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rankzero.errors import UserError
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.plan import Plan

MOST_GPUS = 65_536  # no larger cluster is searched


@dataclass(frozen=True)
class Alternative:
    """A plan that fits, and its differences from a plan that does not, in words."""

    plan: Plan
    changed: dict[str, str]  # what is changed -> the change

    @property
    def changes(self) -> list[str]:
        return list(self.changed.values())

    @property
    def gpu_hours(self) -> float:
        """GPU-hours per billion tokens, by the estimate of a step's seconds."""
        return self.plan.estimate.seconds * self.plan.layout.world_size / self.plan.tokens * 1e9 / 3600


def alternatives(plan: Plan) -> list[Alternative]:
    """Returns plans that fit: fewest GPUs first, then least GPU time per token; empty if no cluster is large enough.

    On the plan's own GPUs: the smallest sets of changes to sharding, checkpointing, sequence parallelism and
    micro-batch that suffice; and the smallest number of GPUs on which more shards suffice without a further change.
    If no change suffices on the plan's own GPUs: the smallest number of GPUs on which all these changes do, with
    tensor ranks too.
    """
    same = _smallest_changes(plan, plan)
    if not same:
        return _on_more_gpus(plan)
    shards = _fewest_shards(plan, replace(plan.layout, zero=3, shard=None))
    more = [_alternative(plan, shards)] if shards and shards.layout.world_size > plan.layout.world_size else []
    return [*same, *more]


def _alternative(plan: Plan, other: Plan) -> Alternative:
    before, after = plan.layout, other.layout
    changed = {}
    if after.tensor != before.tensor:
        changed["tensor"] = f"{after.tensor} tensor ranks"
    if (after.zero, after.shards) != (before.zero, before.shards):
        changed["shards"] = f"{after.shards:,} shards (ZeRO-{after.zero})"
    if before.zero == 3 and after.reshard != before.reshard:
        changed["reshard"] = "gathered weights dropped after forward"
    if after.sequence_parallel != before.sequence_parallel:
        changed["sequence parallelism"] = "sequence parallelism"
    if after.checkpointing != before.checkpointing:
        changed["checkpointing"] = "blocks run again in backward"
    if other.batch_size != plan.batch_size:
        changed["micro-batch"] = f"micro-batches of {other.batch_size} sequence{'s' * (other.batch_size > 1)}"
    return Alternative(other, changed)


def _smallest_changes(plan: Plan, base: Plan) -> list[Alternative]:
    """Returns the changes of `base`, on its GPUs, that make it fit; not one that holds another one's changes too."""
    fitting = [_alternative(plan, found) for layout in _layouts(base.layout) if (found := _largest_batch(base, layout))]
    sets = [found.changed.keys() for found in fitting]
    smallest = {tuple(found.changes): found for found in fitting if not any(s < found.changed.keys() for s in sets)}
    return sorted(smallest.values(), key=lambda found: found.gpu_hours)


def _layouts(layout: Layout) -> Iterator[Layout]:
    """Yields the layout on the same ranks with each set of changes that takes memory from a rank, none first."""
    shardings: list[dict[str, Any]] = [{"zero": layout.zero, "shard": layout.shard, "reshard": layout.reshard}]
    shardings += [{"zero": zero, "shard": None, "reshard": True} for zero in (1, 2, 3) if zero >= layout.zero]
    parallel = {layout.sequence_parallel, layout.tensor > 1}
    for sharding, sequence, checkpointing in itertools.product(
        shardings if layout.data > 1 else shardings[:1], sorted(parallel), sorted({layout.checkpointing, "block"})[::-1]
    ):
        yield replace(layout, **sharding, sequence_parallel=sequence, checkpointing=checkpointing)


def _largest_batch(plan: Plan, layout: Layout) -> Plan | None:
    """Returns the plan in `layout`, in the largest micro-batches that fit and divide the plan's; None if none fits."""
    for parts in range(1, plan.batch_size + 1):
        if plan.batch_size % parts == 0:
            smaller = replace(layout, micro_batches=layout.micro_batches * parts)
            candidate = replace(plan, layout=smaller, batch_size=plan.batch_size // parts)
            if _fits(candidate):
                return candidate
    return None


def _fits(plan: Plan) -> bool:
    if not plan.hardware.nvlink and plan.layout.world_size > 1:  # a measured device, whose links are not known
        return False
    try:
        plan.layout.check(plan.config)
        return plan.room >= 0
    except UserError:  # a layout that this model does not have
        return False


def _fewest_shards(plan: Plan, layout: Layout) -> Plan | None:
    """Returns the plan with the fewest data ranks, all of them shards, that fits: in one node, or in whole nodes."""
    others = layout.tensor * layout.pipeline
    step = math.lcm(others, plan.per_node) // others
    in_a_node = [ranks for ranks in range(1, step) if ranks * others < plan.per_node]

    def with_ranks(ranks: int) -> Plan:
        return replace(plan, layout=replace(layout, data=ranks, zero=layout.zero if ranks > 1 else 0))

    for ranks in in_a_node:
        if _fits(with_ranks(ranks)):
            return with_ranks(ranks)
    high = 1
    while not _fits(with_ranks(high * step)):
        high *= 2
        if high * step * others > MOST_GPUS:
            return None
    low = high // 2  # does not fit, or is 0; high fits
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _fits(with_ranks(middle * step)) else (middle, high)
    return with_ranks(high * step)


def _on_more_gpus(plan: Plan) -> list[Alternative]:
    """Returns the plans on the smallest cluster that suffices, with any number of tensor ranks that a node has."""
    clusters = []
    for tensor in range(plan.layout.tensor, plan.per_node + 1):
        if plan.per_node % tensor == 0 or tensor == plan.layout.tensor:
            smallest: dict[str, Any] = {
                "zero": 3,
                "shard": None,
                "reshard": True,
                "tensor": tensor,
                "checkpointing": "block",
            }
            parallel = tensor > 1 and plan.seq_len % tensor == 0
            layout = replace(plan.layout, **smallest, sequence_parallel=parallel)
            layout = replace(layout, micro_batches=layout.micro_batches * plan.batch_size)
            if smallest_plan := _fewest_shards(replace(plan, batch_size=1), layout):
                clusters.append(smallest_plan.layout)
    fewest = min((layout.world_size for layout in clusters), default=0)
    found: list[Alternative] = []
    for layout in clusters:
        if layout.world_size == fewest:
            unchanged = replace(plan.layout, data=layout.data, tensor=layout.tensor, zero=3, shard=None, reshard=True)
            found += _smallest_changes(plan, replace(plan, layout=unchanged))
    return sorted(found, key=lambda alternative: alternative.gpu_hours)
