"""A step of many ranks equals a step of one process on the whole batch: in float64, to 1e-12, for each strategy."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPT, GPTConfig

TOLERANCE = 1e-12  # float64 rounds at the 16th digit; another order of some hundred additions changes this much
BATCH = 8  # sequences, split over 2 or 4 ranks with 1 or 2 micro-batches per rank
CONFIG = GPTConfig(vocab_size=31, block_size=12, n_layer=2, n_head=2, hidden_dim=16)  # the output layer is tied


def whole_model() -> GPT:
    """Returns a model with the same weights in every process; the MLP of the first block is frozen."""
    torch.manual_seed(5)
    model = GPT(CONFIG).double()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith("blocks.0.mlp"))
    assert not all(parameter.requires_grad for parameter in model.parameters())
    return model


def replicated(model: GPT) -> nn.Module:
    return DistributedDataParallel(model)


def sharded(model: GPT) -> nn.Module:
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model


def hooked(model: GPT) -> nn.Module:
    """Lab 07's reference: a hook on each parameter averages the gradient accumulated so far."""
    load(find_lab("07").reference).data_parallel(model)
    return model


STRATEGIES: dict[str, Callable[[GPT], nn.Module]] = {"DDP": replicated, "FSDP": sharded, "hooks": hooked}


def sync_context(model: nn.Module, last: bool) -> Any:
    """Returns the context of a micro-batch: ranks exchange gradients in the last micro-batch only."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last)
        return nullcontext()
    return nullcontext() if last or not isinstance(model, DistributedDataParallel) else model.no_sync()


def step(model: nn.Module, rows: Tensor, micro_batches: int) -> Tensor:
    """Makes one step on `rows`, int64 [b, T + 1], in equal micro-batches, and returns all weights in one tensor.

    The optimizer is SGD: AdamW's first step would be the same for a gradient that is several times too large.
    """
    optimizer = SGD([p for p in model.parameters() if p.requires_grad], lr=0.3)
    for number, part in enumerate(rows.chunk(micro_batches)):
        with sync_context(model, number == micro_batches - 1):
            logits = model(part[:, :-1])
            (F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten()) / micro_batches).backward()
    optimizer.step()
    return torch.cat(
        [(p.full_tensor() if isinstance(p, DTensor) else p).detach().flatten() for p in model.parameters()]
    )


def compare(micro_batches: int) -> dict[str, tuple[float, float]]:
    """Returns, by strategy, the largest difference from one process's weights after a step, and that step's size."""
    rows = torch.randint(CONFIG.vocab_size, (BATCH, CONFIG.block_size + 1), generator=torch.Generator().manual_seed(3))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    before = torch.cat([p.detach().flatten() for p in whole_model().parameters()])
    one_process = step(whole_model(), rows, 1)
    differences = {}
    for name, wrap in STRATEGIES.items():
        all_ranks = step(wrap(whole_model()), rows[rank::ranks], micro_batches)
        differences[name] = ((all_ranks - one_process).abs().max().item(), (one_process - before).abs().max().item())
    return differences


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_step_of_many_ranks_equals_a_step_on_the_whole_batch(ranks: int, micro_batches: int) -> None:
    for differences in run_world(compare, ranks, micro_batches):
        for name, (difference, step_size) in differences.items():
            assert step_size > 0.005, "a step that moves no weight would prove nothing"
            assert difference <= TOLERANCE, f"{name} on {ranks} ranks, {micro_batches} micro-batches: {difference}"
