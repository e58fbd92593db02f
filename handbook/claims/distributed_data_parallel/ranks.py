"""Claims of handbook/distributed-data-parallel.md on data, random seeds and pace of the ranks."""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler

from rankzero.claims.claim import claim
from rankzero.learn.distributed.world import run_world

from .ddp import gathered


@claim(
    "set-epoch-forgotten",
    "Without set_epoch a DistributedSampler gives the same order in every epoch; with it, {expected[with]} % of "
    "places agree.",
    expected={"without": 100, "with": 1},
    tolerance=1,
    unit="% of places with the same sample",
)
def set_epoch_forgotten() -> Mapping[str, float]:
    """Draws two epochs of 400 samples for one of 4 ranks, and compares them place by place."""
    measured = {}
    for name, called in (("without", False), ("with", True)):
        sampler: DistributedSampler[Any] = DistributedSampler(TensorDataset(torch.arange(400)), num_replicas=4, rank=1)
        epochs = []
        for epoch in range(2):
            if called:
                sampler.set_epoch(epoch)
            epochs.append(list(sampler))
        measured[name] = 100 * sum(a == b for a, b in zip(*epochs, strict=True)) / 100
    return measured


def dropped(seed_step: int) -> tuple[Tensor, Tensor]:
    """Returns the places of dropout's zeros on every rank, and each rank's weights as DDP left them."""
    torch.manual_seed(7 + seed_step * dist.get_rank())
    layer = nn.Linear(16, 16)
    DistributedDataParallel(layer)
    masks = gathered(F.dropout(torch.ones(10_000), 0.5).eq(0).float())
    return torch.stack(masks), torch.stack(gathered(layer.weight.detach()))


@claim(
    "dropout-by-rank",
    "Seeded alike, two ranks drop the same units; with seed + rank half of them agree. Weights are equal either way.",
    expected={"one seed": 100, "seed + rank": 50, "weights that differ": 0},
    tolerance=2,
    unit="% of 10,000 units",
)
def dropout_by_rank() -> Mapping[str, float]:
    """Draws a dropout mask on each rank after wrapping a layer, and compares masks and weights."""
    measured: dict[str, float] = {}
    differ = 0
    for name, seed_step in (("one seed", 0), ("seed + rank", 1)):
        masks, weights = run_world(dropped, 2, seed_step)[0]
        measured[name] = 100 * masks[0].eq(masks[1]).float().mean().item()
        differ += int(weights[0].ne(weights[1]).sum())
    return {**measured, "weights that differ": differ}


def leads(exchange: bool) -> list[int]:
    """Steps that rank 0 is ahead of rank 1 after each of 10, rank 1 being slow."""
    store, rank = dist.distributed_c10d._get_default_store(), dist.get_rank()
    ahead = []
    for step in range(10):
        if rank == 1 and exchange:
            sum(range(100_000))  # slow
        elif rank == 1:
            store.get("rank 0 is done")  # as slow as can be
        store.add(f"begun by {rank}", 1)
        if exchange:
            dist.all_reduce(torch.ones(1))
        ahead.append(step + 1 - store.add(f"begun by {1 - rank}", 0))
    if rank == 0:
        store.set("rank 0 is done", "")
    return ahead


@claim(
    "nobody-runs-ahead",
    "With an all-reduce in each step, a fast rank is never a step ahead of a slow rank; without it, the fast rank "
    "finishes all {expected[without]} steps alone.",
    expected={"with an all-reduce": 0, "without": 10},
    unit="steps ahead, at most",
)
def nobody_runs_ahead() -> Mapping[str, float]:
    """Both ranks count the steps that they begin in the world's store; after each of its own rank 0 reads rank 1's.

    Without the all-reduce rank 1 waits until rank 0 is done; with it that would be forever, so it computes a while.
    """
    return {
        name: max(run_world(leads, 2, exchange)[0])
        for name, exchange in (("with an all-reduce", True), ("without", False))
    }


def skips_after_overflow() -> bool:
    """Returns whether this rank's scaler skips its step when rank 0 alone has a gradient of inf."""
    model = nn.Linear(2, 2)
    wrapped, optimizer = DistributedDataParallel(model), SGD(model.parameters(), lr=0.1)
    before, scaler = model.weight.detach().clone(), torch.amp.GradScaler("cpu")
    x = torch.full((1, 2), float("inf") if dist.get_rank() == 0 else 1.0)
    scaler.scale(wrapped(x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return bool(model.weight.eq(before).all())


@claim(
    "inf-reaches-every-rank",
    "If the gradient of one of 4 ranks overflows, the average is inf on all ranks, and all 4 loss scalers skip the "
    "step.",
    expected=4,
    unit="ranks skip",
)
def inf_reaches_every_rank() -> int:
    """Gives rank 0 an input of inf, takes a scaled step with DDP, and counts the ranks whose weights did not move."""
    return sum(run_world(skips_after_overflow, 4))


def mean_of_large_gradients() -> tuple[float, float]:
    """The mean of two gradients of 3e38 by DDP, and their sum by an all-reduce; 3.4e38 is fp32's largest number."""
    model = nn.Linear(1, 1, bias=False)
    DistributedDataParallel(model)(torch.tensor([[3e38]])).sum().backward()
    assert model.weight.grad is not None
    total = torch.tensor(3e38)
    dist.all_reduce(total)
    return model.weight.grad.item(), total.item()


@claim(
    "ddp-divides-before-it-sums",
    "Two ranks with the gradient 3e38: DDP's mean is {expected[mean by DDP]:.0e}, because it divides by the "
    "number of ranks before the all-reduce. The sum of the two would be inf.",
    expected={"mean by DDP": 3e38, "sum is inf": 1},
    tolerance=1e32,
    unit="gradient, or 1: yes",
)
def divides_before_it_sums() -> Mapping[str, float]:
    """Compares DDP's mean with an all-reduce of the undivided gradients; their sum, 6e38, is too large for fp32."""
    mean, total = run_world(mean_of_large_gradients, 2)[0]
    return {"mean by DDP": mean, "sum is inf": int(math.isinf(total))}
