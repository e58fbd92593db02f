"""Simulation of a plan: one step of the real model as one rank of many; counts bytes, collectives and their order.

PyTorch's fake process group answers every collective at once, for any number of ranks, and fake tensors have shapes and
no data. Everything else is real: `fully_shard`, DTensor, autograd, the optimizer. The bytes on this rank are counted by
kind, and every collective where it enters the process group.
"""

import contextlib
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.distributed.tensor.parallel import loss_parallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from rankzero.errors import UserError
from rankzero.learn.distributed.collectives import CollectiveCounter, Record
from rankzero.learn.models.gpt import GPTConfig
from rankzero.ledger.ledger import BEGIN, FORWARD, Kind, Ledger, Line, Row, compare
from rankzero.ledger.measure import (
    BYTES_TO_DTYPE,
    RecipeOptimizer,
    SavedTensors,
    WeightCopies,
    default_dtype,
    local_part,
    rows_of_states,
    storage_bytes,
)
from rankzero.ledger.models import Config
from rankzero.ledger.plan import pipeline_schedule
from rankzero.ledger.plan.collective_traffic import BUCKET, FIRST_BUCKET, Collective, Totals, summed, totals
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.plan.model_stages import off_meta, parallelize
from rankzero.ledger.recipes import Optimizer, Recipe

AXES = ("pipeline", "replica", "shard", "tensor")  # ranks along the last axis are neighbors
EXACT = (Kind.WEIGHTS, Kind.GRADIENTS, Kind.OPTIMIZER, Kind.ACTIVATIONS)  # the counted kinds


@dataclass(frozen=True)
class Counted:
    """The bytes and the collectives of one rank in one step."""

    ledger: Ledger
    records: tuple[Record, ...]

    def lines(self, planned: Ledger) -> list[Line]:
        """Returns planned and counted bytes of the kinds in EXACT."""
        return compare(Ledger("", tuple(row for row in planned.rows if row.kind in EXACT)), self.ledger)

    def totals(self) -> Totals:
        """Returns calls and bytes by operation and number of ranks; receives count on the rank that sends."""
        return summed((r.collective, r.ranks, 1, r.bytes) for r in self.records if r.collective != "recv")

    def agrees(self, planned: Ledger, sent: list[Collective]) -> bool:
        """Returns whether every byte and every call is as planned."""
        return all(line.difference == 0 for line in self.lines(planned)) and totals(sent) == self.totals()

    def as_json(self) -> dict[str, Any]:
        """Returns plain data."""
        return {
            "ledger": self.ledger.as_json(),
            "collectives": [
                {"operation": name, "ranks": ranks, "calls": calls, "bytes": size}
                for (name, ranks), (calls, size) in self.totals().items()
            ],
        }


@contextlib.contextmanager
def fake_world(ranks: int, rank: int = 0) -> Iterator[None]:
    """Makes a process group of `ranks` of which only this rank exists: collectives return at once."""
    hook = sys.excepthook  # replaced by init_process_group
    _clear_sharding_prop_cache()  # the cache may name groups of an earlier world
    dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()
        sys.excepthook = hook


def mesh_of(layout: Layout) -> DeviceMesh:
    """Returns the mesh of all ranks of the process group, by the axes of a layout."""
    sizes = (layout.pipeline, layout.replicas, layout.shards, layout.tensor)
    return init_device_mesh("cpu", sizes, mesh_dim_names=AXES)


def check(config: Config, recipe: Recipe, layout: Layout) -> None:
    """UserError for layouts that can be planned and not run."""
    layout.check(config)
    if layout.zero in (1, 2):
        raise UserError(f"ZeRO-{layout.zero} is computed only: no class of PyTorch does exactly this. Simulate 0 or 3.")
    if recipe.copy and layout.tensor > 1:
        raise UserError("autocast over tensor ranks is computed only: simulate another recipe, such as mixed.")
    if isinstance(config, GPTConfig) and layout.tensor > 1:
        raise UserError("a GPT over tensor ranks is computed only (q, k, v are one matrix): simulate a Llama.")


def simulate(
    config: Config,
    recipe: Recipe,
    optimizer: Optimizer,
    layout: Layout,
    *,
    batch_size: int,
    seq_len: int,
    stage: int = 0,
) -> Counted:
    """Counts one optimizer step of the first rank of pipeline stage `stage`, on fake tensors in a fake world."""
    check(config, recipe, layout)
    with fake_world(layout.world_size, stage * layout.data * layout.tensor), warnings.catch_warnings(action="ignore"):
        return count_step(config, recipe, optimizer, layout, batch_size=batch_size, seq_len=seq_len, fake=True)


def count_step(
    config: Config,
    recipe: Recipe,
    optimizer: Optimizer,
    layout: Layout,
    *,
    batch_size: int,
    seq_len: int,
    fake: bool = False,
) -> Counted:
    """Counts one optimizer step of this rank of the process group, fake or real; weights are uninitialized."""
    mesh = mesh_of(layout)  # before fake tensors are made: init_device_mesh reads a real tensor
    stage = dist.get_rank() // (layout.data * layout.tensor)
    with default_dtype(recipe), torch.device("meta"):
        runs = parallelize(config, recipe, layout, mesh, stage)
    with FakeTensorMode(allow_non_fake_inputs=True) if fake else contextlib.nullcontext():  # non-fake: meta tensors
        off_meta(runs)
        return _Step(config, recipe, layout, runs, mesh, batch_size, seq_len, stage).count(optimizer)


@dataclass
class _Step:
    """The micro-batches of one step on one rank: their activations, and the order of finished gradients."""

    config: Config
    recipe: Recipe
    layout: Layout
    runs: nn.ModuleList  # this rank's runs of blocks
    mesh: DeviceMesh
    batch_size: int
    seq_len: int
    stage: int

    def __post_init__(self) -> None:
        self.under_way: dict[tuple[int, int], tuple[Tensor, Tensor, Counter[str]]] = {}
        self.most: Counter[str] = Counter()  # bytes by module, when most activations are held
        self.copies = 0
        self.ready: dict[Tensor, None] = {}  # weights in the order in which their gradients were finished
        self.sending: list[tuple[dist.Work | None, Tensor]] = []
        for parameter in self.runs.parameters():
            parameter.register_post_accumulate_grad_hook(self._note)

    def count(self, optimizer: Optimizer) -> Counted:
        """Runs forward and backward of every micro-batch by the schedule, then the update; returns the counts."""
        layout, last_stage = self.layout, self.layout.pipeline - 1
        updater = RecipeOptimizer(self.runs, self.recipe, optimizer)
        with CollectiveCounter() as counter:
            for action in pipeline_schedule.order(self.stage, layout.pipeline, layout.micro_batches, layout.interleave):
                (self.forward if action.forward else self.backward)(action)
            self.finish()
            if layout.zero == 0 and layout.data > 1:
                gradients = [updater.gradient_of(weight) for weight in self.ready]
                _all_reduce_in_buckets(gradients, self.mesh["replica"].get_group())
            _reduce_partial_gradients(updater)
            if isinstance(self.config, GPTConfig) and layout.pipeline > 1 and self.stage in (0, last_stage):
                _all_reduce_tied_embedding(self.runs, updater, layout, self.mesh)
            gradient_bytes = storage_bytes(updater.gradient_tensors())
            updater.step()
        rows = [
            *(Row(Kind.ACTIVATIONS, name or "loss", size) for name, size in self.most.items()),
            Row(Kind.WEIGHTS, "autocast's bf16 copies", self.copies, phases=(FORWARD, BEGIN)),
            *rows_of_states(self.runs, updater, gradient_bytes),
        ]
        return Counted(Ledger("counted", tuple(row for row in rows if row.bytes)), tuple(counter.records))

    def _note(self, weight: Tensor) -> None:
        self.ready.pop(weight, None)
        self.ready[weight] = None

    def forward(self, action: pipeline_schedule.Action) -> None:
        part = self.layout.part(self.config, self.stage, action.chunk)
        model = self.runs[action.chunk]
        x = torch.randint(self.config.vocab_size, (self.batch_size, self.seq_len)) if part.first else self._receive(-1)
        saved, copies = SavedTensors(model), WeightCopies(model)
        autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(self.recipe.copy))
        with copies, saved.active(left_out=copies.storages), self._loss_parallel(), autocast:
            split = self.layout.sequence_parallel and not part.first
            out = model(DTensor.from_local(x, self.mesh["tensor"], [Shard(1)]) if split else x)
            if part.last:
                targets = torch.randint(self.config.vocab_size, (self.batch_size * self.seq_len,))
                out = F.cross_entropy(out.flatten(0, 1), targets)
        self.copies = max(self.copies, copies.bytes())
        if not part.last:
            self._send(out.detach(), 1)
        self.under_way[action.micro_batch, action.chunk] = x, out, Counter(saved.by_module)
        total: Counter[str] = sum((saved_bytes for _, _, saved_bytes in self.under_way.values()), Counter())
        if total.total() > self.most.total():
            self.most = total

    def backward(self, action: pipeline_schedule.Action) -> None:
        part = self.layout.part(self.config, self.stage, action.chunk)
        x, out, _ = self.under_way.pop((action.micro_batch, action.chunk))
        with self._loss_parallel():
            out.backward(None if part.last else self._receive(1, out))
        if not part.first and x.grad is not None:
            self._send(x.grad, -1)

    def _loss_parallel(self) -> contextlib.AbstractContextManager[Any]:
        return loss_parallel() if self.layout.tensor > 1 else contextlib.nullcontext()

    def _peer(self, step: int) -> int:
        return (self.stage + step) % self.layout.pipeline

    def _send(self, tensor: Tensor, step: int) -> None:
        # Without waiting for the receiver: two ranks that both send first would wait forever.
        tensor = tensor.contiguous()
        work = dist.isend(tensor, group=self.mesh["pipeline"].get_group(), group_dst=self._peer(step))
        self.sending.append((work, tensor))

    def finish(self) -> None:
        """Waits until all tensors are sent."""
        for work, _ in self.sending:
            if work is not None:
                work.wait()

    def _receive(self, step: int, like: Tensor | None = None) -> Tensor:
        tokens = self.seq_len // (self.layout.tensor if self.layout.sequence_parallel else 1)
        shape = self.batch_size, tokens, self.config.hidden_dim
        dtype = torch.float32 if self.recipe.copy else BYTES_TO_DTYPE[self.recipe.weight]
        tensor = torch.empty(shape, dtype=dtype) if like is None else torch.empty_like(like)
        dist.recv(tensor, group=self.mesh["pipeline"].get_group(), group_src=self._peer(step))
        return tensor.requires_grad_(like is None)


def _reduce_partial_gradients(updater: RecipeOptimizer) -> None:
    """Reduces gradients that are still partial sums: those of norms whose tokens are split over tensor ranks.

    Gradients under `fully_shard` or in fp32 sums are reduced already. Without this function, the optimizer would reduce
    the partial sums at each read.
    """
    for parameter in [] if updater.accumulators else updater.parameters:
        gradient = parameter.grad
        if isinstance(gradient, DTensor) and any(placement.is_partial() for placement in gradient.placements):
            parameter.grad = gradient.redistribute(placements=parameter.placements)  # type: ignore[attr-defined]


def _all_reduce_tied_embedding(runs: nn.ModuleList, updater: RecipeOptimizer, layout: Layout, mesh: DeviceMesh) -> None:
    """Sums the gradients of a GPT's token embedding, also its output layer, over the first and last pipeline rank."""
    per_stage = layout.data * layout.tensor
    column = dist.get_rank() % per_stage
    ends = [column, column + (layout.pipeline - 1) * per_stage]
    name = "head.weight" if mesh["pipeline"].get_local_rank() else "token_embedding.weight"
    embedding = dict(runs.named_parameters())[f"{len(runs) - 1 if name.startswith('head') else 0}.{name}"]
    group = dist.new_group(ends, use_local_synchronization=True)
    dist.all_reduce(local_part(updater.gradient_of(embedding)), group=group)


def _all_reduce_in_buckets(gradients: list[Tensor], group: dist.ProcessGroup) -> None:
    """Sends gradients as DDP does: PyTorch's own function fills the buckets, in the order of finished gradients."""
    local = [local_part(gradient) for gradient in gradients]
    buckets, _ = dist._compute_bucket_assignment_by_size(local, [FIRST_BUCKET, BUCKET])  # type: ignore[attr-defined]
    for bucket in buckets:
        dist.all_reduce(torch.cat([local[index].flatten() for index in bucket]), group=group)
