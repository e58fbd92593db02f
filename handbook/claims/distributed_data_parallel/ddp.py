"""Claims of handbook/distributed-data-parallel.md on DDP's start, its buckets and its options."""

import contextlib
from collections.abc import Mapping
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.checkpoint import checkpoint

from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gradients import flat, gradient, gradient_of, off_by
from rankzero.claims.toolkit.lab_model import SHAPE, TINY, next_token_loss, seeded_gpt
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPT

from .strategies import MIB, own_part


def gathered(tensor: Tensor) -> list[Tensor]:
    """Every rank's tensor, by rank."""
    copies = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(copies, tensor)
    return copies


# ------------------------------------------------------------------------------------------------------ start, buckets
def apart_after(wrapped: bool) -> float:
    """Distance of two replicas of different seeds after 3 steps, over the distance at the start."""
    torch.manual_seed(dist.get_rank())
    model = nn.Linear(8, 8, dtype=torch.float64)

    def apart() -> float:
        first, second = gathered(flat(list(model.parameters())))
        return (first - second).norm().item()

    start = apart()
    runs = DistributedDataParallel(model) if wrapped else model
    optimizer = SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        runs(torch.ones(4, 8, dtype=torch.float64)).square().mean().backward()
        for p in model.parameters():  # what DDP would do, without its start
            if not wrapped and p.grad is not None:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()
        optimizer.step()
    return apart() / start


@claim(
    "replicas-start-alike",
    "DDP copies rank 0's weights to all. Averaged gradients alone leave replicas exactly as far apart as they began.",
    expected={"DDP": 0, "averaged gradients alone": 1},
    tolerance=1e-9,
    unit="of the distance at the start",
)
def replicas_start_alike() -> Mapping[str, float]:
    """Seeds two ranks differently, takes 3 steps of SGD with DDP and with an all-reduce by hand, compares weights."""
    with_ddp, without = run_world(lambda: (apart_after(wrapped=True), apart_after(wrapped=False)), 2)[0]
    return {"DDP": with_ddp, "averaged gradients alone": without}


class Chain(nn.Module):
    """33 matrices of 4 MiB in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.zeros(1024, 1024) for _ in range(33))

    def forward(self, x: Tensor) -> Tensor:
        """x [1, 1024]."""
        for weight in self.weights:
            x = x @ weight
        return x


def buckets_of_two_steps() -> list[list[float]]:
    """MiB of each bucket that DDP hands out, in the first and the second step. Nothing is sent."""
    wrapped = DistributedDataParallel(Chain(), init_sync=False)
    steps: list[list[float]] = []

    def note(state: None, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        steps[-1].append(bucket.buffer().nbytes / MIB)
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    wrapped.register_comm_hook(None, note)
    for _ in range(2):
        steps.append([])
        wrapped(torch.ones(1, 1024)).sum().backward()
    return steps


@claim(
    "bucket-sizes",
    "33 gradients of 4 MiB are sent in one bucket of {expected[step 1, bucket 0]} MiB in the first step, then in "
    "buckets of 4, 28, 28, 28, 28 and {expected[step 2, bucket 5]} MiB.",
    expected={
        "step 1, bucket 0": 132,
        **{f"step 2, bucket {i}": size for i, size in enumerate((4, 28, 28, 28, 28, 16))},
    },
    unit="MiB",
)
def bucket_sizes() -> Mapping[str, float]:
    """Wraps 33 matrices with DDP's defaults on one rank, and has a communication hook note each bucket."""
    (steps,) = run_world(buckets_of_two_steps, 1)
    return {f"step {s}, bucket {i}": size for s, sizes in enumerate(steps, 1) for i, size in enumerate(sizes)}


class MixedChain(nn.Module):
    """Four small layers in a row, of which two are in bf16."""

    def __init__(self) -> None:
        super().__init__()
        dtypes = (torch.float32, torch.bfloat16, torch.bfloat16, torch.float32)
        self.layers = nn.ModuleList(nn.Linear(8, 8, bias=False, dtype=dtype) for dtype in dtypes)

    def forward(self, x: Tensor) -> Tensor:
        """x [1, 8]."""
        for layer in self.layers:
            x = layer(x.to(next(layer.parameters()).dtype))
        return x


def dtypes_of_buckets() -> list[set[torch.dtype]]:
    """For each bucket of the second step, the dtypes of its gradients. Nothing is sent."""
    wrapped = DistributedDataParallel(MixedChain(), init_sync=False)
    buckets: list[set[torch.dtype]] = []

    def note(state: None, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        buckets.append({gradient.dtype for gradient in bucket.gradients()})
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    wrapped.register_comm_hook(None, note)
    for _ in range(2):
        buckets.clear()
        wrapped(torch.ones(1, 8)).sum().backward()
    return buckets


@claim(
    "ddp-buckets-by-dtype",
    "Four small layers, of which two are in bf16, need {expected[buckets]} buckets, though all fit into one: no bucket "
    "has two dtypes.",
    expected={"buckets": 2, "most dtypes in a bucket": 1},
    unit="buckets, or dtypes",
)
def buckets_by_dtype() -> Mapping[str, float]:
    """Wraps four layers with DDP's defaults on one rank, and has a communication hook note each bucket's dtypes."""
    (buckets,) = run_world(dtypes_of_buckets, 1)
    return {"buckets": len(buckets), "most dtypes in a bucket": max(len(dtypes) for dtypes in buckets)}


def calls_with(options: Mapping[str, Any]) -> int:
    """All-reduces of the third step of Lab 02's model."""
    torch.manual_seed(0)
    wrapped = DistributedDataParallel(GPT(SHAPE), init_sync=False, **options)
    tokens = torch.randint(96, (1, 9))
    for step in range(3):
        with CollectiveCounter() if step == 2 else contextlib.nullcontext() as counted:
            next_token_loss(wrapped, tokens).backward()
    assert counted is not None
    return counted.calls["all_reduce"]


@claim(
    "calls-with-buckets",
    "Lab 02's model needs {expected[default]} all-reduces per step with DDP's buckets, and "
    "{expected[a bucket per tensor]}, one per tensor, with a cap below the smallest tensor.",
    expected={"default": 2, "a bucket per tensor": 27},
    unit="all-reduces",
)
def calls_with_buckets() -> Mapping[str, float]:
    """Counts in the third step, with the default cap and with one below the smallest tensor."""
    caps: dict[str, dict[str, Any]] = {"default": {}, "a bucket per tensor": {"bucket_cap_mb": 1e-6}}
    return run_world(lambda: {name: calls_with(options) for name, options in caps.items()}, 2)[0]


def gradients_missing_at_each_bucket() -> list[int]:
    """For each bucket that leaves, how many of 6 gradients are still to come."""
    layers = [nn.Linear(256, 256, bias=False) for _ in range(6)]
    wrapped = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.5)  # two layers of 256 KiB
    ready, missing = 0, []

    def count(_: Tensor) -> None:
        nonlocal ready
        ready += 1

    for layer in layers:
        layer.weight.register_post_accumulate_grad_hook(count)

    def note(state: None, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        missing.append(len(layers) - ready)
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    wrapped.register_comm_hook(None, note)
    for _ in range(2):
        ready, missing = 0, []
        wrapped(torch.ones(1, 256)).sum().backward()
    return missing


@claim(
    "buckets-leave-early",
    "Three buckets of two layers each are sent while {expected[bucket 0]}, {expected[bucket 1]} and "
    "{expected[bucket 2]} of 6 gradients are still to be computed.",
    expected={"bucket 0": 4, "bucket 1": 2, "bucket 2": 0},
    unit="gradients to come",
)
def buckets_leave_early() -> Mapping[str, float]:
    """Counts in hooks which gradients are ready at the moment when DDP hands out a bucket."""
    missing = run_world(gradients_missing_at_each_bucket, 2)[0]
    return {f"bucket {i}": n for i, n in enumerate(missing)}


# ------------------------------------------------------------------------------------------------------------- options
def accumulated(quiet: str) -> tuple[int, Tensor]:
    """All-reduces and gradient of 8 micro-batches; `quiet` says where no_sync is: nowhere, around all, or too late."""
    model, tokens = seeded_gpt(TINY)
    wrapped = DistributedDataParallel(model)
    gradient(wrapped, lambda: next_token_loss(wrapped, tokens))  # the first step, before buckets are final
    model.zero_grad()
    parts = own_part(tokens).chunk(8)
    with CollectiveCounter() as counted:
        for i, part in enumerate(parts):
            last = i == len(parts) - 1
            with wrapped.no_sync() if quiet == "around both" and not last else contextlib.nullcontext():
                loss = next_token_loss(wrapped, part) / len(parts)
                with wrapped.no_sync() if quiet == "around backward" and not last else contextlib.nullcontext():
                    loss.backward()
    return counted.calls["all_reduce"], gradient_of(model)


@claim(
    "no-sync-once",
    "For 8 micro-batches, no_sync around forward and backward sends the gradient {expected[around both]} time instead "
    "of 8 times, with the same result; around backward alone it changes nothing.",
    expected={"without": 8, "around both": 1, "around backward": 8, "gradients differ": 0},
    tolerance=1e-12,
    unit="all-reduces, or times the gradient's length",
)
def no_sync_once() -> Mapping[str, float]:
    """Accumulates 8 micro-batches of a small GPT on 2 ranks in three ways, counts, and compares the gradients."""
    ways = ("without", "around both", "around backward")
    answers = run_world(lambda: {way: accumulated(way) for way in ways}, 2)[0]
    expected_gradient = answers["without"][1]
    differ = max(off_by(gradient, expected_gradient) for _, gradient in answers.values())
    return {**{way: calls for way, (calls, _) in answers.items()}, "gradients differ": differ}


class OneOfTwo(nn.Module):
    """Has two layers and uses one."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, 4]."""
        return self.used(x)


def steps_with_unused(options: Mapping[str, Any]) -> int:
    """Returns the number of steps that DDP takes, of 3."""
    wrapped = DistributedDataParallel(OneOfTwo(), **options)
    for step in range(3):
        try:
            wrapped(torch.ones(1, 4)).sum().backward()
        except RuntimeError as error:
            if "find_unused_parameters=True" not in str(error):
                raise
            return step
    return 3


@claim(
    "unused-parameters",
    "A layer that forward does not use stops DDP in its second step; find_unused_parameters or static_graph allows it.",
    expected={"default": 1, "find_unused_parameters": 3, "static_graph": 3},
    unit="of 3 steps",
)
def unused_parameters() -> Mapping[str, float]:
    """Trains a module with an idle layer on 2 ranks under each option and counts the steps before the error."""
    options: dict[str, dict[str, Any]] = {
        "default": {},
        "find_unused_parameters": {"find_unused_parameters": True},
        "static_graph": {"static_graph": True},
    }
    return run_world(lambda: {name: steps_with_unused(chosen) for name, chosen in options.items()}, 2)[0]


def running_means() -> list[float]:
    """Distance of two ranks' running means after a step, and after the next forward pass in evaluation mode."""
    torch.manual_seed(dist.get_rank())
    norm = nn.BatchNorm1d(4, momentum=1.0)
    wrapped = DistributedDataParallel(norm)
    apart = []
    for training in (True, False):
        wrapped.train(training)
        wrapped(torch.randn(8, 4))
        assert norm.running_mean is not None
        first, second = gathered(norm.running_mean)
        apart.append((first - second).norm().item())
    return apart


@claim(
    "buffers-of-rank-0",
    "BatchNorm's running means differ between ranks after a step; the next forward replaces them by rank 0's.",
    expected={"after a step": True, "after the next forward": False},
    unit="ranks differ",
)
def buffers_of_rank_0() -> Mapping[str, float]:
    """Gives two ranks different inputs, and compares their running means."""
    after_step, after_forward = run_world(running_means, 2)[0]
    return {"after a step": after_step > 0.1, "after the next forward": after_forward > 0}


class Rechecked(nn.Module):
    """A linear layer, and another that a checkpoint runs again in backward."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.second, self.reentrant = nn.Linear(2, 2), nn.Linear(2, 2), reentrant

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, checkpoint(self.second, self.first(x), use_reentrant=self.reentrant))


def ready_twice(reentrant: bool, **options: Any) -> bool:
    """Tells whether a step of DDP with these options ends in the error of a parameter that is ready twice."""
    net = DistributedDataParallel(Rechecked(reentrant), **options)
    try:
        net(torch.ones(1, 2)).sum().backward()
    except RuntimeError as error:
        return "Expected to mark a variable ready only once" in str(error)
    return False


def ready_twice_by_setting() -> dict[str, bool]:
    return {
        "reentrant": ready_twice(True, find_unused_parameters=True),
        "not reentrant": ready_twice(False, find_unused_parameters=True),
        "static graph": ready_twice(True, static_graph=True),
    }


@claim(
    "ddp-ready-only-once",
    "Reentrant checkpoints under find_unused_parameters end in 'Expected to mark a variable ready only once'; with "
    "use_reentrant=False, or with static_graph, they run.",
    expected={"reentrant": 1, "not reentrant": 0, "static graph": 0},
    unit="1: RuntimeError",
)
def ready_only_once() -> Mapping[str, float]:
    """Takes a step on 2 ranks with a checkpointed layer, in each setting, and looks for the error's text."""
    return {name: int(twice) for name, twice in run_world(ready_twice_by_setting, 2)[0].items()}
