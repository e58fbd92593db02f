"""Plan of a training step on a cluster: memory, collectives and time of each rank, from sizes alone.

A plan combines the bytes of `predict.py`, the collectives of `collective_traffic.py` and the seconds of `step_time.py`
for one model, one layout and one kind of hardware. `simulate.py` runs the same step and counts.
"""

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankzero.errors import UserError
from rankzero.ledger.hardware import MEASURED, Hardware, find_hardware
from rankzero.ledger.ledger import Ledger
from rankzero.ledger.models import Config, find_preset, parameter_count, weights_of
from rankzero.ledger.plan import pipeline_schedule
from rankzero.ledger.plan.collective_traffic import Collective, collectives
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.shard_buffers import units_of
from rankzero.ledger.plan.step_time import Estimate, estimate, model_flops, recomputed_flops
from rankzero.ledger.predict import largest_micro_batch, predict
from rankzero.ledger.recipes import Optimizer, Recipe, find_optimizer, find_recipe


@dataclass(frozen=True)
class Plan:
    """One model in one layout. `efficiency` is the share of the peak that matrix products are assumed to reach."""

    name: str
    config: Config
    recipe: Recipe
    optimizer: Optimizer
    layout: Layout
    batch_size: int
    seq_len: int
    hardware: Hardware
    per_node: int = 8
    efficiency: float = 0.5

    @cached_property
    def ledgers(self) -> tuple[Ledger, ...]:
        """Ledgers of the first rank of each pipeline stage."""
        model, sizes = (self.config, self.recipe, self.optimizer), self._sizes
        return tuple(predict(*model, **sizes, layout=self.layout, stage=n) for n in range(self.layout.pipeline))

    @property
    def _sizes(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "seq_len": self.seq_len}

    @cached_property
    def stage(self) -> int:
        """The fullest pipeline stage."""
        return max(range(len(self.ledgers)), key=lambda stage: self.ledgers[stage].peak()[1])

    @property
    def ledger(self) -> Ledger:
        """Ledger of the fullest stage."""
        return self.ledgers[self.stage]

    @cached_property
    def collectives(self) -> list[Collective]:
        """Collectives of a rank of the fullest stage, in one optimizer step."""
        return self.collectives_of(self.stage)

    def collectives_of(self, stage: int) -> list[Collective]:
        """Returns the collectives of a rank of one stage."""
        return collectives(self.config, self.recipe, self.layout, **self._sizes, stage=stage)

    @cached_property
    def estimate(self) -> Estimate:
        """Time of a step, part by part."""
        args: dict[str, Any] = {"stage": self.stage, "efficiency": self.efficiency, "per_node": self.per_node}
        args |= self._sizes
        return estimate(self.config, self.recipe, self.optimizer, self.layout, self.collectives, self.hardware, **args)

    @property
    def tokens(self) -> int:
        """Tokens of an optimizer step, on all ranks together."""
        return self.layout.data * self.layout.micro_batches * self.batch_size * self.seq_len

    @property
    def bubble(self) -> float:
        """Share of the pipeline's time in which a rank is idle."""
        return pipeline_schedule.bubble(self.layout.pipeline, self.layout.micro_batches, self.layout.interleave)

    @property
    def bound(self) -> str:
        """Words that follow a time: a lower bound at the full peak, if no message is counted as never hidden."""
        alone = self.layout.tensor == self.layout.pipeline == 1
        return " at least" if self.efficiency == 1 and alone else ", estimated"

    @property
    def flops(self) -> int:
        """FLOPs of the model for a step, by 6N + 12LHQT."""
        return model_flops(self.config, self.tokens, self.seq_len)

    @property
    def hardware_flops(self) -> int:
        """FLOPs for a step, recomputation included."""
        return self.flops + recomputed_flops(self.config, self.layout, self.tokens, self.seq_len)

    @property
    def room(self) -> int:
        """Bytes left on a GPU at the peak; below 0 the plan does not fit."""
        return self.hardware.memory - self.ledger.peak()[1]

    @property
    def warnings(self) -> list[str]:
        """Sentences about choices that are possible and cost memory or time."""
        layout, warnings = self.layout, []
        if layout.micro_batches < layout.pipeline:
            warnings.append(
                f"{layout.pipeline} pipeline stages are more than can be filled by {layout.micro_batches} micro-batch"
                f"{'es' * (layout.micro_batches > 1)}: {self.bubble:.0%} of each rank's time is bubble."
            )
        if self.config.vocab_size % layout.tensor:
            padded = -(-self.config.vocab_size // layout.tensor)
            warnings.append(
                f"a vocabulary of {self.config.vocab_size:,} does not divide by {layout.tensor} tensor ranks: "
                f"the first ranks hold {padded:,} rows."
            )
        weights = weights_of(self.config, layout.part(self.config, self.stage))
        gathered = sum(unit.numbers * unit.copies for unit in units_of(weights, layout))
        padding = 1 - sum(weight.numbers(layout.tensor) * weight.copies for weight in weights) / gathered
        if padding > 0.05:
            warnings.append(
                f"rows do not divide by {layout.shards:,} shards: {padding:.0%} of what is gathered is padding."
            )
        if 0 <= self.room < self.hardware.memory / 10:
            warnings.append(
                "less than a tenth of the memory is left; the CUDA context, NCCL's buffers and fragmentation, which no "
                "plan includes, may take that."
            )
        if layout.world_size > self.per_node and self.per_node % layout.tensor:
            warnings.append(
                f"groups of {layout.tensor} tensor ranks leave a node of {self.per_node}: "
                "their products wait for the network."
            )
        return warnings

    def largest_batch(self) -> int:
        """Returns the sequences of the largest micro-batch that fits on every stage; 0 if none fits."""
        model = self.config, self.recipe, self.optimizer
        limits: dict[str, Any] = {"seq_len": self.seq_len, "budget": self.hardware.memory}
        stages = range(self.layout.pipeline)
        return min(largest_micro_batch(*model, **limits, layout=self.layout, stage=stage) for stage in stages)

    def as_json(self) -> dict[str, Any]:
        """Returns plain data. "time" is None for a plan that does not fit."""
        peak = self.ledger.peak()
        return {
            "model": self.name,
            "parameters": parameter_count(self.config),
            "config": dataclasses.asdict(self.config),
            "recipe": self.recipe.name,
            "optimizer": self.optimizer.name,
            "layout": dataclasses.asdict(self.layout)
            | {"shards": self.layout.shards, "replicas": self.layout.replicas},
            "ranks": self.layout.world_size,
            "micro_batch": self.batch_size,
            "sequence": self.seq_len,
            "tokens": self.tokens,
            "stages": [ledger.as_json() | {"peak": ledger.peak()[1]} for ledger in self.ledgers],
            "fullest_stage": self.stage,
            "peak": {"moment": peak[0], "bytes": peak[1]},
            "collectives": [
                dataclasses.asdict(collective) | {"sent": collective.sent} for collective in self.collectives
            ],
            "bubble": self.bubble,
            "flops": {"model": self.flops, "hardware": self.hardware_flops},
            "hardware": dataclasses.asdict(self.hardware),
            "time": self._time() if self.room >= 0 else None,
            "room": self.room,
            "warnings": self.warnings,
        }

    def _time(self) -> dict[str, Any]:
        step = self.estimate
        return {
            "efficiency": self.efficiency,
            "seconds": step.seconds,
            "parts": step.parts,
            "hidden": step.hidden,
            "tokens_per_s": step.tokens / step.seconds,
            "mfu": step.mfu,
            "hfu": step.hfu,
        }


def make_plan(
    preset: str,
    layout: Layout | None = None,
    *,
    batch_size: int = 1,
    seq_len: int | None = None,
    recipe: str = "mixed",
    optimizer: str = "adamw",
    hardware: str = "h100",
    per_node: int = 8,
    efficiency: float | None = None,
) -> Plan:
    """Returns a plan by names. Without `seq_len`, sequences have the preset's length. UserError if impossible.

    Without `efficiency`, products reach half of a data sheet's peak, and all of a measured one.
    """
    config, layout = find_preset(preset), layout or Layout()
    layout.check(config)
    names = find_recipe(recipe), find_optimizer(optimizer)
    sizes = batch_size, seq_len or config.block_size
    machine = find_hardware(hardware)
    if hardware == MEASURED and layout.world_size > 1:
        raise UserError(
            f"--hardware measured is one device, whose links are not measured: plan {layout.world_size:,} ranks with "
            "the hardware of a data sheet."
        )
    if efficiency is None:
        efficiency = 1.0 if hardware == MEASURED else 0.5
    return Plan(preset, config, *names, layout, *sizes, machine, per_node, efficiency)
