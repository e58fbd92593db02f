"""Probes of Lab 07: each runs the learner's code in real worlds of 1 to 4 ranks, and returns its results.

Everything is computed in float64, and only on ranks: a probe's process makes no tensors that need threads. Answers have
values in the order of the ranks; `whole` is the value that one process computes from the whole batch.
"""

import random
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from rankzero.exercises.probes.rank_probes import run_on_ranks
from rankzero.exercises.probes.untrusted_values import flat, gradients, plain_number, type_name
from rankzero.learn.distributed.collectives import CollectiveCounter
from rankzero.learn.distributed.world import WorldTimeoutError
from rankzero.learn.models.gpt import GPT, GPTConfig

ROWS = 12  # divides by 1, 2, 3 and 4 ranks
SECONDS = 4.0  # a world's time limit; a right answer takes a fortieth of it on an idle machine


_torchs_init = DistributedDataParallel.__init__


def not_by_hand(*_: Any, **__: Any) -> None:
    """Replaces PyTorch's constructor, under whatever name a file imports the class. This process only runs probes."""
    raise RuntimeError("DistributedDataParallel is PyTorch's answer; yours does without it.")


DistributedDataParallel.__init__ = not_by_hand  # type: ignore[method-assign]


def in_world(function: Callable[..., Any], ranks: int, *args: Any) -> list[Any]:
    """Returns the value of each rank. c10d's comparison of calls is off: the checks compare, and DDP forbids it."""
    return list(run_on_ranks(function, ranks, *args, seconds=SECONDS, debug=False))


def flat_list(tensors: Any) -> list[float]:
    """Returns all numbers of these tensors in one list."""
    return list(flat(tensors).tolist())


def gradient_list(model: nn.Module) -> list[float]:
    """Returns all gradients in one list, with nan for missing gradients."""
    return list(gradients(model).tolist())


def weight_list(model: nn.Module) -> list[float]:
    """Returns all parameters and then all buffers in one list."""
    return flat_list([*model.parameters(), *model.buffers()])


def by_rank(every: list[list[float]]) -> np.ndarray:
    """Returns the lists of all ranks as an array [ranks, numbers]."""
    return np.array(every, dtype=np.float64)


def my_rows(x: Tensor) -> Tensor:
    """Returns this rank's rows of a batch, which are consecutive."""
    return x.chunk(dist.get_world_size())[dist.get_rank()]


# ---------------------------------------------------------------------------------------------------- ring_all_reduce
class Messages(TorchDispatchMode):
    """Records the other rank and the size of every message, and the names of all other collectives.

    Messages without numbers are not recorded. `first` is the first number that was sent, or None.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first: float | None = None
        self.sent: list[list[int]] = []
        self.received: list[list[int]] = []
        self.others: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            name = str(func).split(".")[1]
            if name in ("send", "recv_"):
                row = [int(args[2]), sum(tensor.numel() for tensor in args[0])]
                if row[1]:
                    (self.sent if name == "send" else self.received).append(row)
                if name == "send" and row[1] and self.first is None:
                    self.first = float(torch.cat([tensor.flatten() for tensor in args[0]])[0])
            else:
                self.others.append(name.strip("_"))
        return func(*args, **(kwargs or {}))


def _ring(learner: ModuleType, seed: int, shapes: list[tuple[int, ...]]) -> list[Any]:
    """Returns one rank's tensor after the call, and its messages, for tensors of several shapes."""
    results = []
    for number, shape in enumerate(shapes):
        generator = torch.Generator().manual_seed(seed + 100 * number + dist.get_rank())
        tensor = torch.randn(shape, generator=generator, dtype=torch.float64)
        given = flat_list([tensor])
        with Messages() as messages:
            learner.ring_all_reduce(tensor)
        # With fewer numbers than ranks, the first chunk may be empty.
        first_sent = messages.first if len(given) >= dist.get_world_size() else None
        results.append([flat_list([tensor]), messages.sent, messages.received, messages.others, first_sent, given])
    return results


def ring(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sums tensors whose length is a multiple of the ranks, and is not, on 2, 3 and 4 ranks."""
    draw = random.Random(seed)
    shapes = [(12 * draw.randrange(1, 9),), (12 * draw.randrange(1, 9) + 7,), (5, draw.randrange(3, 12, 2))]
    return _rings(learner, seed, (2, 3, 4), shapes)


def ring_short(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sums tensors with fewer numbers than ranks and with no number, and in a world of one rank."""
    return _rings(learner, seed, (1, 3), [(2,), (1, 1), (0,)])


_stuck: list[list[str]] = []  # calls in which the ranks of a ring hang: kept so that a second ring need not hang again


def _rings(learner: ModuleType, seed: int, sizes: tuple[int, ...], shapes: list[tuple[int, ...]]) -> dict[str, Any]:
    """Returns lists by world and shape, whose elements are lists by rank."""
    worlds: list[list[Any]] = []
    try:
        for ranks in sizes if not _stuck else ():
            worlds.append(in_world(_ring, ranks, learner, seed, shapes))
    except WorldTimeoutError as error:
        matches = re.findall(r"rank (\d+)(?: of \d+|):? was (?:inside (\w+)|busy|done)?", str(error))
        _stuck.append([inside for _, inside in sorted(matches)] or [""])
    cases = [(world, number) for world in worlds for number in range(len(shapes))]
    return {
        "stuck": _stuck[0] if _stuck else [],
        "ranks": [len(world) for world, _ in cases],
        "shapes": [list(shapes[number]) for _, number in cases],
        "sums": [[rank[number][0] for rank in world] for world, number in cases],
        "sent": [[rank[number][1] for rank in world] for world, number in cases],
        "received": [[rank[number][2] for rank in world] for world, number in cases],
        "others": [[rank[number][3] for rank in world] for world, number in cases],
        "first": [[rank[number][4] for rank in world] for world, number in cases],
        "given": [[rank[number][5] for rank in world] for world, number in cases],
    }


# ------------------------------------------------------------------------------------------------------ data_parallel
Sizes = tuple[int, int, int]  # of the input, of the hidden layer, of the output


def draw_sizes(seed: int) -> Sizes:
    """Returns small random sizes, so that different models have different costs."""
    draw = random.Random(f"sizes {seed}")
    return draw.randrange(3, 10), draw.randrange(3, 10), draw.randrange(3, 10)


class Net(nn.Module):
    """Three layers, two buffers that forward reads, and special cases of gradients.

    `twin` is `last` under another name, so that layer is used twice. If `special`, `middle` is frozen, and a layer
    `spare` is never used.
    """

    def __init__(self, seed: int, sizes: Sizes, *, special: bool = False) -> None:
        super().__init__()
        torch.manual_seed(seed)
        inputs, inner, outputs = sizes
        self.first = nn.Linear(inputs, inner)
        self.middle = nn.Linear(inner, outputs)
        self.last = nn.Linear(outputs, outputs)
        self.twin = self.last
        if special:
            self.middle.requires_grad_(False)
            self.spare = nn.Linear(outputs, 3)
        self.register_buffer("shift", torch.randn(outputs))
        self.register_buffer("scale", torch.rand(outputs) + 0.5, persistent=False)
        self.seen: Callable[[Tensor], None] | None = None  # called in backward, before the first layer's gradients
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        """[b, inputs] -> [b, outputs]"""
        x = self.first(x)
        if self.seen and x.requires_grad:
            x.register_hook(self.seen)
        x = torch.tanh(self.middle(torch.tanh(x)) * self.scale + self.shift)
        return self.twin(torch.tanh(self.last(x)))


def rows(seed: int, inputs: int = 5, outputs: int = 4) -> tuple[Tensor, Tensor]:
    """Returns a batch of 12 rows and its targets."""
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(ROWS, inputs, generator=generator, dtype=torch.float64),
        torch.randn(ROWS, outputs, generator=generator, dtype=torch.float64),
    )


def square_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Returns the mean squared error."""
    return F.mse_loss(model(batch[0]), batch[1])


def add_to_gradients(model: nn.Module, number: float) -> None:
    """Adds a number to every existing gradient."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = parameter.grad + number


def _start(learner: ModuleType, seed: int) -> list[Any]:
    model = Net(seed + 17 * dist.get_rank(), draw_sizes(seed))
    with CollectiveCounter() as counter:
        learner.data_parallel(model)
    return [weight_list(model), counter.bytes["broadcast"], sorted(counter.calls)]


def start(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Starts three ranks with three different models."""
    ranks = in_world(_start, 3, learner, seed)
    parameters = sum(p.numel() for p in Net(seed, draw_sizes(seed)).parameters())
    return {
        "parameters": parameters,
        "weights": by_rank([rank[0] for rank in ranks]),
        "bytes": [rank[1] for rank in ranks],
        "calls": [rank[2] for rank in ranks],
    }


def _steps(learner: ModuleType, seed: int, special: bool) -> list[Any]:
    """Runs two backward passes after clearing and one over the rank's old gradients, and computes the right values.

    The third pass shows a hook that averages only the gradient that a backward pass adds.
    """
    sizes = draw_sizes(seed)
    model, single_process = Net(seed, sizes, special=special), Net(seed, sizes, special=special)
    learner.data_parallel(model)
    computed, expected_values, calls, sent, early = [], [], [], [], []
    for number in range(3):
        batch = rows(seed + number, sizes[0], sizes[2])
        if number < 2:
            model.zero_grad()
            single_process.zero_grad()
        else:  # as after a micro-batch without averaging
            add_to_gradients(model, 1.0 + dist.get_rank())
            add_to_gradients(single_process, (1.0 + dist.get_world_size()) / 2)
        with CollectiveCounter() as counter:
            model.seen = lambda gradient, counter=counter: early.append(len(counter.records))
            loss = square_loss(model, (my_rows(batch[0]), my_rows(batch[1])))
            forward = len(counter.records)
            loss.backward()
        square_loss(single_process, batch).backward()
        computed += gradient_list(model)
        expected_values += gradient_list(single_process)
        calls.append([forward, counter.calls["all_reduce"], len(counter.records)])
        sent.append(counter.bytes["all_reduce"])
    return [computed, expected_values, calls, sent, early]


def _stepped(worlds: list[list[Any]]) -> dict[str, Any]:
    return {
        "ranks": [len(world) for world in worlds],
        "gradients": [by_rank([rank[0] for rank in world]) for world in worlds],
        "whole": [by_rank([rank[1] for rank in world]) for world in worlds],
        "calls": [[rank[2] for rank in world] for world in worlds],
        "bytes": [[rank[3] for rank in world] for world in worlds],
        "early": [[rank[4] for rank in world] for world in worlds],
    }


def steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs three backward passes on 4 ranks."""
    return _stepped([in_world(_steps, 4, learner, seed, False)])


def special(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs three backward passes with a frozen layer, a tied layer and an unused layer, on 2 ranks."""
    return _stepped([in_world(_steps, 2, learner, seed, True)])


# ------------------------------------------------------------------------------------------------------------ overlap
def buckets(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes buckets of parameters of random sizes and two dtypes, some frozen; returns their places in the model."""
    draw = random.Random(seed)
    cases, places = [], []
    for cap in (1, 100, *(draw.randrange(40, 200) for _ in range(4)), 10**6):
        sizes = [draw.choice([1, 3, 5, 10, 12, 25]) for _ in range(9)]
        parameters = [nn.Parameter(torch.zeros(size), requires_grad=bool(n % 4)) for n, size in enumerate(sizes)]
        parameters.append(nn.Parameter(torch.zeros(3, dtype=torch.float64)))
        place = {id(parameter): number for number, parameter in enumerate(parameters)}
        returned = learner.make_buckets((p for p in parameters), cap)
        places.append([[place.get(id(parameter), -1) for parameter in bucket] for bucket in returned])
        cases.append([cap, *sizes])
    exact = [nn.Parameter(torch.zeros(5)) for _ in range(4)]  # two fill a cap of 40 bytes exactly
    place = {id(parameter): number for number, parameter in enumerate(exact)}
    returned = learner.make_buckets(exact, 40)
    places.append([[place.get(id(parameter), -1) for parameter in bucket] for bucket in returned])
    places.append([list(bucket) for bucket in learner.make_buckets([], 40)])
    return {"cases": [*cases, [40, 5, 5, 5, 5], [40]], "buckets": places}


class Chain(nn.Module):
    """Layers in another order than that of their creation; `seen` is called before the first layer's gradients.

    One layer has a second name, like a tied layer, and one parameter is frozen.
    """

    ORDER = (0, 2, 1, 4, 3, 5)  # so that backward does not complete the layers in the order of their creation

    def __init__(self, seed: int, inputs: int = 5, width: int = 4) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.ModuleList(nn.Linear(width if n else inputs, width) for n in range(6))
        self.tied = self.layers[3]
        self.frozen = nn.Parameter(torch.rand(width) + 0.5, requires_grad=False)
        self.seen: Callable[[Tensor], None] | None = None
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        """[b, inputs] -> [b, width]"""
        for number in self.ORDER:
            x = self.layers[number](x)
            if number == 0 and self.seen and x.requires_grad:
                x.register_hook(self.seen)
            x = torch.tanh(x)
        return x * self.frozen


class Settled(TorchDispatchMode):
    """Waits for every all-reduce at once, because only `unwaited` checks whether the learner's code waits."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == "c10d" and isinstance(result, tuple):
            result[-1].wait()
        return result


def _overlapped(learner: ModuleType, seed: int, cap: int) -> list[Any]:
    """Makes three steps; returns gradients and all-reduces: their sizes, and the numbers early and in backward."""
    inputs, width, _ = draw_sizes(seed)
    model, single_process = Chain(seed, inputs, width), Chain(seed, inputs, width)
    finish = learner.overlap(model, cap)
    computed, expected_values, sent = [], [], []
    for number in range(3):
        batch = rows(seed + number, inputs, width)
        model.zero_grad()
        single_process.zero_grad()
        early: list[int] = []
        with Settled(), CollectiveCounter() as counter:
            model.seen = lambda gradient, counter=counter, early=early: early.append(len(counter.records))
            square_loss(model, (my_rows(batch[0]), my_rows(batch[1]))).backward()
            in_backward = len(counter.records)
            finish()
        square_loss(single_process, batch).backward()
        computed += gradient_list(model)
        expected_values += gradient_list(single_process)
        sent.append([[record.bytes for record in counter.records], early[0], in_backward, counter.calls["all_reduce"]])
    return [computed, expected_values, sent]


def _both_overlapped(learner: ModuleType, seed: int, cap: int) -> list[list[Any]]:
    return [_overlapped(learner, seed, bucket_cap) for bucket_cap in (cap, 1)]


def overlapped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Overlaps on 3 ranks, with buckets of several parameters and with a bucket per parameter."""
    _, width, _ = draw_sizes(seed)
    cap = int(8 * width * (width + 1) * random.Random(seed).uniform(1.06, 1.56))  # slightly more than a layer's bytes
    both = in_world(_both_overlapped, 3, learner, seed, cap)
    worlds = [[rank[case] for rank in both] for case in range(2)]
    return {
        "ranks": [3, 3],
        "gradients": [by_rank([rank[0] for rank in world]) for world in worlds],
        "whole": [by_rank([rank[1] for rank in world]) for world in worlds],
        "sent": [[rank[2] for rank in world] for world in worlds],
    }


class Waits:
    """Calls `note` when code waits for a collective or reads its status; `attended` has the collectives concerned.

    Taking a future does not count as waiting, because `then` can be called with a function to run at its end.
    """

    NAMES = (
        (dist.Work, ("wait", "synchronize", "is_completed", "is_success", "get_future", "result")),
        (torch._C.Future, ("wait", "value", "done")),
    )

    def __init__(self, note: Callable[[], None]) -> None:
        self.attended: list[Any] = []
        self._own = [(owner, name, getattr(owner, name)) for owner, names in self.NAMES for name in names]
        for owner, name, method in self._own:

            def noting(work: Any, *args: Any, name: str = name, method: Any = method, **kwargs: Any) -> Any:
                if isinstance(work, dist.Work) and not any(work is attended for attended in self.attended):
                    self.attended.append(work)
                if name != "get_future":
                    note()
                return method(work, *args, **kwargs)

            setattr(owner, name, noting)

    def undo(self) -> None:
        """Restores the methods."""
        for owner, name, method in self._own:
            setattr(owner, name, method)


def _unwaited(learner: ModuleType, seed: int) -> list[Any]:
    """Rank 1 sends nothing until rank 0 waits or has finished; returns when that is, and rank 0's gradients."""
    model, single_process = Chain(seed), Chain(seed)
    x, y = rows(seed)
    finish = learner.overlap(model, 1)
    store = dist.distributed_c10d._get_default_store()
    loss = square_loss(model, (my_rows(x), my_rows(y)))
    in_backward: list[bool] = []
    backward = True

    def note() -> None:
        if dist.get_rank() == 0 and not in_backward:
            in_backward.append(backward)
            store.set("go on", "yes")

    waits = Waits(note)
    if dist.get_rank() == 1:
        store.wait(["go on"])
    loss.backward()
    backward = False
    finish()
    computed = gradient_list(model)
    note()
    waits.undo()
    dist.barrier()  # no rank ends before the other rank has finished
    square_loss(single_process, (x, y)).backward()
    return [in_backward, computed, gradient_list(single_process), len(waits.attended)]


def unwaited(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs two ranks, of which rank 1 is late."""
    ranks = in_world(_unwaited, 2, learner, seed)
    return {
        "in backward": ranks[0][0][0],
        "attended": ranks[0][3],
        "gradients": np.array(ranks[0][1]),
        "whole": np.array(ranks[0][2]),
    }


class Fork(nn.Module):
    """Parallel layers of one size between a first and a last layer; forward uses the layers in `used`."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.ModuleList(nn.Linear(5, 5, bias=False) for _ in range(6))
        self.double()

    def forward(self, x: Tensor, used: tuple[int, ...]) -> Tensor:
        """[b, 5] -> [b, 4]"""
        x = torch.tanh(self.layers[0](x))
        x = x + sum(torch.tanh(self.layers[number](x)) for number in used)
        return self.layers[5](x)[:, :4]


def _forked(learner: ModuleType, seed: int) -> list[Any]:
    """Makes two steps in which ranks 0 to 2 use layers 1, 2, 3 and then 3, 1, 2; layer 4 is never used."""
    model, single_process = Fork(seed), Fork(seed)
    finish = learner.overlap(model, 1)
    computed, expected_values, sent = [], [], []
    for number in range(2):
        x, y = rows(seed + number)
        used = [(1 + (rank + 2 * number) % 3,) for rank in range(3)]
        model.zero_grad()
        single_process.zero_grad()
        with Settled(), CollectiveCounter() as counter:
            F.mse_loss(model(my_rows(x), used[dist.get_rank()]), my_rows(y)).backward()
            finish()
        for rank in range(3):
            (F.mse_loss(single_process(x.chunk(3)[rank], used[rank]), y.chunk(3)[rank]) / 3).backward()
        computed += gradient_list(model)
        expected_values += [0.0 if np.isnan(number) else number for number in gradient_list(single_process)]
        sent.append(counter.calls["all_reduce"])
    return [computed, expected_values, sent]


def forked(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs three ranks that use different parameters."""
    ranks = in_world(_forked, 3, learner, seed)
    return {
        "ranks": [3],
        "gradients": [by_rank([rank[0] for rank in ranks])],
        "whole": [by_rank([rank[1] for rank in ranks])],
        "calls": [rank[2] for rank in ranks],
    }


# -------------------------------------------------------------------------------------------------------------- shard
_torchs: list[int] = []  # calls of PyTorch's own sampler, which the learner replaces in this exercise
_sampler_iter = torch.utils.data.DistributedSampler.__iter__


def _noting(sampler: Any) -> Any:
    _torchs.append(1)
    return _sampler_iter(sampler)


torch.utils.data.DistributedSampler.__iter__ = _noting  # type: ignore[method-assign]


def _shards(learner: ModuleType, cases: list[tuple[int, int, int, int, bool, bool]]) -> dict[str, Any]:
    by_case, kinds = [], set()
    _torchs.clear()
    for length, ranks, epoch, seed, shuffle, drop_last in cases:
        settings = {"epoch": epoch, "seed": seed, "shuffle": shuffle, "drop_last": drop_last}
        shards = [learner.shard(length, rank, ranks, **settings) for rank in range(ranks)]
        kinds |= {type_name(shard) for shard in shards}
        shards = [list(shard) for shard in shards]
        kinds |= {f"list of {type_name(item)}" for shard in shards for item in shard}
        by_case.append([[int(number) for number in shard] for shard in shards])
    kinds -= {"list", "list of int"}
    return {"cases": [list(case) for case in cases], "shards": by_case, "kinds": sorted(kinds), "torchs": len(_torchs)}


def divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Shards data sets in order, with lengths that are multiples of the ranks."""
    draw = random.Random(seed)
    cases = [(ranks * draw.randrange(2, 12), ranks, draw.randrange(5), seed, False, False) for ranks in (2, 3, 4)]
    return _shards(learner, cases)


def shuffled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Shards a data set in several epochs and with several seeds, and tells whether the global random state changed."""
    epoch, seed = seed % 5, seed + 1  # a seed of 0 would have no effect
    length = 3 * random.Random(seed).randrange(6, 9)
    torch.manual_seed(seed)
    before = torch.get_rng_state()
    draws = ((0, 0), (epoch + 1, seed), (epoch + 2, seed))
    cases = [(length, 3, case_epoch, case_seed, True, False) for case_epoch, case_seed in draws]
    shards = _shards(learner, cases)
    return shards | {"disturbed": not torch.equal(before, torch.get_rng_state())}


def padded(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Shards data sets whose lengths are no multiples of the ranks; one has fewer samples than half of the ranks."""
    length = 4 * random.Random(seed).randrange(3, 6)
    cases = [(length + remainder, 4, 2, seed, shuffle, False) for remainder in (1, 3) for shuffle in (False, True)]
    return _shards(learner, [*cases, (2, 5, 0, seed, False, False), (1, 4, 1, seed, True, False)])


def dropped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Shards data sets with drop_last; one has fewer samples than ranks, so that no sample is left."""
    length = 4 * random.Random(seed).randrange(3, 6)
    cases = [(length + remainder, 4, 2, seed, shuffle, True) for remainder in (0, 1, 3) for shuffle in (False, True)]
    return _shards(learner, [*cases, (3, 4, 0, seed, True, True)])


# --------------------------------------------------------------------------------------------------------- accumulate
def make_gpt(seed: int) -> GPT:
    """Returns a tiny GPT in float64, with weights large enough that mistakes show."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(13, block_size=6, n_layer=1, n_head=2, hidden_dim=8))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.double()


def tokens(seed: int) -> tuple[Tensor, Tensor]:
    """Returns 12 sequences of 6 tokens and their targets; some targets are easy."""
    x, y = torch.randint(13, (2, ROWS, 6), generator=torch.Generator().manual_seed(seed))
    return x, torch.where(torch.arange(ROWS)[:, None] < 5, x, y)


def token_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def _accumulated(learner: ModuleType, seed: int, k: int, old: bool) -> list[Any]:
    """Returns one rank's loss and gradients, and for each forward and backward: rows, sent, DDP's flag, sum of tokens.

    `sent` is 0 if nothing was sent before, 1 after a number such as the loss, and 2 after gradients.
    """
    model, single_process = make_gpt(seed), make_gpt(seed)
    with patch.object(DistributedDataParallel, "__init__", _torchs_init):
        ddp = DistributedDataParallel(model)
    token_loss(ddp, *map(my_rows, tokens(seed + 1))).backward()  # the first backward rebuilds the buckets
    if not old:
        model.zero_grad()
    x, y = tokens(seed)
    events: list[list[int]] = []
    with CollectiveCounter() as counter:

        def forward(module: nn.Module, inputs: Any, output: Tensor) -> None:
            sizes = [record.bytes for record in counter.records if record.collective == "all_reduce"]
            sent = 2 if max(sizes, default=0) > 8 else int(bool(sizes))
            events.append([len(inputs[0]), sent, bool(ddp.require_backward_grad_sync), int(inputs[0].sum())])
            output.register_hook(lambda gradient: events.append([0, sent, bool(ddp.require_backward_grad_sync), 0]))

        hook = model.register_forward_hook(forward)
        loss = learner.accumulate(ddp, my_rows(x), my_rows(y), k)
        hook.remove()
    whole = token_loss(single_process, x, y)
    whole.backward()
    return [
        type_name(loss),
        plain_number(loss),
        whole.item(),
        gradient_list(model),
        gradient_list(single_process),
        events,
        [record.bytes for record in counter.records if record.collective == "all_reduce" and record.bytes > 8],
    ]


def accumulated(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates three micro-batches on 2 ranks."""
    return _all_accumulated([in_world(_accumulated, 2, learner, seed, 3, False)])


def over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates one micro-batch over old gradients, on 3 ranks."""
    return _all_accumulated([in_world(_accumulated, 3, learner, seed, 1, True)])


def _all_accumulated(worlds: list[list[Any]]) -> dict[str, Any]:
    return {
        "ranks": [len(world) for world in worlds],
        "types": [rank[0] for world in worlds for rank in world],
        "losses": [[rank[1] for rank in world] for world in worlds],
        "whole losses": [[rank[2] for rank in world] for world in worlds],
        "gradients": [by_rank([rank[3] for rank in world]) for world in worlds],
        "whole": [by_rank([rank[4] for rank in world]) for world in worlds],
        "events": [[rank[5] for rank in world] for world in worlds],
        "bytes": [[rank[6] for rank in world] for world in worlds],
    }
