"""One step of many ranks is one step of one process on the whole batch: in float64, to 1e-12, however it is done."""

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

EQUAL = 1e-12  # float64 rounds at the 16th digit; other orders of some hundred additions leave this much
BATCH = 8  # sequences; 2 and 4 ranks share it, in 1 or 2 micro-batches each
CONFIG = GPTConfig(vocab_size=31, block_size=12, n_layer=2, n_head=2, hidden_dim=16)  # its output layer is tied


def whole_model() -> GPT:
    """The same weights in every process; the MLP of the first block is frozen."""
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
    """Lab 07's own answer: a hook on each parameter, which averages what has been accumulated so far."""
    load(find_lab("07").reference).data_parallel(model)
    return model


WAYS: dict[str, Callable[[GPT], nn.Module]] = {"DDP": replicated, "FSDP": sharded, "hooks": hooked}


def quiet(model: nn.Module, last: bool) -> Any:
    """The context of a micro-batch: gradients travel in the last one only."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last)
        return nullcontext()
    return nullcontext() if last or not isinstance(model, DistributedDataParallel) else model.no_sync()


def step(model: nn.Module, rows: Tensor, micro_batches: int) -> Tensor:
    """One step on `rows`, int64 [b, T + 1], in equal micro-batches; the weights after it, laid end to end.

    By SGD: AdamW's first step would be the same for a gradient that is several times too large.
    """
    optimizer = SGD([p for p in model.parameters() if p.requires_grad], lr=0.3)
    for number, part in enumerate(rows.chunk(micro_batches)):
        with quiet(model, number == micro_batches - 1):
            logits = model(part[:, :-1])
            (F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten()) / micro_batches).backward()
    optimizer.step()
    return torch.cat(
        [(p.full_tensor() if isinstance(p, DTensor) else p).detach().flatten() for p in model.parameters()]
    )


def compare(micro_batches: int) -> dict[str, tuple[float, float]]:
    """How far each way's weights are from one process's after a step, and how far that step went."""
    rows = torch.randint(CONFIG.vocab_size, (BATCH, CONFIG.block_size + 1), generator=torch.Generator().manual_seed(3))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    before = torch.cat([p.detach().flatten() for p in whole_model().parameters()])
    alone = step(whole_model(), rows, 1)
    found = {}
    for name, wrap in WAYS.items():
        together = step(wrap(whole_model()), rows[rank::ranks], micro_batches)
        found[name] = ((together - alone).abs().max().item(), (alone - before).abs().max().item())
    return found


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_step_of_many_ranks_is_a_step_on_the_whole_batch(ranks: int, micro_batches: int) -> None:
    for found in run_world(compare, ranks, micro_batches):
        for name, (apart, moved) in found.items():
            assert moved > 0.005, "the step must move the weights, or equality says nothing"
            assert apart <= EQUAL, f"{name} on {ranks} ranks, {micro_batches} micro-batches: {apart}"
