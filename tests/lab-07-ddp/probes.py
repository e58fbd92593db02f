"""Lab 07, probes: they run the learner's code in real worlds of 1 to 4 ranks and return what came of it.

Everything is computed in float64. A probe's own process makes no tensors that need threads: all work is in the ranks.
Answers hold the ranks' values in the order of their ranks; `whole` is what one process gets from the whole batch.
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
SECONDS = 4.0  # a world's time limit; on a machine that is not busy, a right answer takes a fortieth of it


_torchs_init = DistributedDataParallel.__init__


def not_by_hand(*_: Any, **__: Any) -> None:
    """Stands in for PyTorch's own, by whatever name a file gets at it. This process only runs probes."""
    raise RuntimeError("DistributedDataParallel is PyTorch's answer; yours does without it.")


DistributedDataParallel.__init__ = not_by_hand  # type: ignore[method-assign]


def in_world(function: Callable[..., Any], ranks: int, *args: Any) -> list[Any]:
    """What each rank returns. c10d does not compare the ranks' calls here: the checks do, and DDP allows it not."""
    return list(run_on_ranks(function, ranks, *args, seconds=SECONDS, debug=False))


def flat_list(tensors: Any) -> list[float]:
    """All numbers of these tensors in one list."""
    return list(flat(tensors).tolist())


def gradient_list(model: nn.Module) -> list[float]:
    """All gradients; nan where there is none."""
    return list(gradients(model).tolist())


def weight_list(model: nn.Module) -> list[float]:
    """All parameters, then all buffers."""
    return flat_list([*model.parameters(), *model.buffers()])


def by_rank(every: list[list[float]]) -> np.ndarray:
    """[ranks, numbers]"""
    return np.array(every, dtype=np.float64)


def my_rows(x: Tensor) -> Tensor:
    """This rank's rows of a batch: neighbors."""
    return x.chunk(dist.get_world_size())[dist.get_rank()]


# ---------------------------------------------------------------------------------------------------- ring_all_reduce
class Messages(TorchDispatchMode):
    """Notes every message: to or from which rank, and how many numbers; and the names of all other collectives.

    Messages without numbers are not noted. `first` is the first number that was sent, if any was.
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
    """What one rank holds after the call, and its messages, for tensors of several shapes."""
    found = []
    for number, shape in enumerate(shapes):
        generator = torch.Generator().manual_seed(seed + 100 * number + dist.get_rank())
        tensor = torch.randn(shape, generator=generator, dtype=torch.float64)
        given = flat_list([tensor])
        with Messages() as messages:
            learner.ring_all_reduce(tensor)
        own = messages.first if len(given) >= dist.get_world_size() else None  # or the first chunk may be empty
        found.append([flat_list([tensor]), messages.sent, messages.received, messages.others, own, given])
    return found


def ring(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Tensors whose length the ranks divide, and do not, on 2, 3 and 4 ranks."""
    draw = random.Random(seed)
    shapes = [(12 * draw.randrange(1, 9),), (12 * draw.randrange(1, 9) + 7,), (5, draw.randrange(3, 12, 2))]
    return _rings(learner, seed, (2, 3, 4), shapes)


def ring_short(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Fewer numbers than ranks, no number at all; and a world of one rank."""
    return _rings(learner, seed, (1, 3), [(2,), (1, 1), (0,)])


_stuck: list[list[str]] = []  # what the ranks of a ring that hangs wait in: a second ring need not hang again


def _rings(learner: ModuleType, seed: int, sizes: tuple[int, ...], shapes: list[tuple[int, ...]]) -> dict[str, Any]:
    """Lists by world and shape, of lists by rank."""
    worlds: list[list[Any]] = []
    try:
        for ranks in sizes if not _stuck else ():
            worlds.append(in_world(_ring, ranks, learner, seed, shapes))
    except WorldTimeoutError as error:
        found = re.findall(r"rank (\d+)(?: of \d+|):? was (?:inside (\w+)|busy|done)?", str(error))
        _stuck.append([inside for _, inside in sorted(found)] or [""])
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
Sizes = tuple[int, int, int]  # of what comes in, of what is between, of what comes out


def draw_sizes(seed: int) -> Sizes:
    """Small ones; no two models cost the same."""
    draw = random.Random(f"sizes {seed}")
    return draw.randrange(3, 10), draw.randrange(3, 10), draw.randrange(3, 10)


class Net(nn.Module):
    """Three layers, two buffers that forward reads, and what makes gradients special.

    `middle` is frozen where asked for; `twin` is `last` under another name, used twice; `spare` is not used at all.
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
    """A batch of 12 rows and its targets."""
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(ROWS, inputs, generator=generator, dtype=torch.float64),
        torch.randn(ROWS, outputs, generator=generator, dtype=torch.float64),
    )


def square_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean over the rows' numbers."""
    return F.mse_loss(model(batch[0]), batch[1])


def add_to_gradients(model: nn.Module, number: float) -> None:
    """Adds a number to every gradient that there is."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = parameter.grad + number


def _start(learner: ModuleType, seed: int) -> list[Any]:
    model = Net(seed + 17 * dist.get_rank(), draw_sizes(seed))
    with CollectiveCounter() as counter:
        learner.data_parallel(model)
    return [weight_list(model), counter.bytes["broadcast"], sorted(counter.calls)]


def start(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three ranks that begin with three models."""
    ranks = in_world(_start, 3, learner, seed)
    parameters = sum(p.numel() for p in Net(seed, draw_sizes(seed)).parameters())
    return {
        "parameters": parameters,
        "weights": by_rank([rank[0] for rank in ranks]),
        "bytes": [rank[1] for rank in ranks],
        "calls": [rank[2] for rank in ranks],
    }


def _steps(learner: ModuleType, seed: int, special: bool) -> list[Any]:
    """Two backwards after clearing, one on top of gradients that each rank has of its own; and the truth.

    A hook that averages what a backward adds, not what is there, shows in the third.
    """
    sizes = draw_sizes(seed)
    model, alone = Net(seed, sizes, special=special), Net(seed, sizes, special=special)
    learner.data_parallel(model)
    found, truth, calls, sent, early = [], [], [], [], []
    for number in range(3):
        batch = rows(seed + number, sizes[0], sizes[2])
        if number < 2:
            model.zero_grad()
            alone.zero_grad()
        else:  # as a micro-batch leaves them that was not averaged
            add_to_gradients(model, 1.0 + dist.get_rank())
            add_to_gradients(alone, (1.0 + dist.get_world_size()) / 2)
        with CollectiveCounter() as counter:
            model.seen = lambda slopes, counter=counter: early.append(len(counter.records))
            loss = square_loss(model, (my_rows(batch[0]), my_rows(batch[1])))
            forward = len(counter.records)
            loss.backward()
        square_loss(alone, batch).backward()
        found += gradient_list(model)
        truth += gradient_list(alone)
        calls.append([forward, counter.calls["all_reduce"], len(counter.records)])
        sent.append(counter.bytes["all_reduce"])
    return [found, truth, calls, sent, early]


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
    """Three backwards on 4 ranks."""
    return _stepped([in_world(_steps, 4, learner, seed, False)])


def special(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The same with a frozen layer, a tied one and one that nobody uses, on 2 ranks."""
    return _stepped([in_world(_steps, 2, learner, seed, True)])


# ------------------------------------------------------------------------------------------------------------ overlap
def buckets(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Parameters of random sizes and two types, some frozen, in buckets: by their places in the model."""
    draw = random.Random(seed)
    cases, found = [], []
    for cap in (1, 100, *(draw.randrange(40, 200) for _ in range(4)), 10**6):
        sizes = [draw.choice([1, 3, 5, 10, 12, 25]) for _ in range(9)]
        parameters = [nn.Parameter(torch.zeros(size), requires_grad=bool(n % 4)) for n, size in enumerate(sizes)]
        parameters.append(nn.Parameter(torch.zeros(3, dtype=torch.float64)))
        place = {id(parameter): number for number, parameter in enumerate(parameters)}
        made = learner.make_buckets((p for p in parameters), cap)
        found.append([[place.get(id(one), -1) for one in bucket] for bucket in made])
        cases.append([cap, *sizes])
    exact = [nn.Parameter(torch.zeros(5)) for _ in range(4)]  # two fill a cap of 40 bytes exactly
    place = {id(parameter): number for number, parameter in enumerate(exact)}
    found.append([[place.get(id(one), -1) for one in bucket] for bucket in learner.make_buckets(exact, 40)])
    found.append([list(bucket) for bucket in learner.make_buckets([], 40)])
    return {"cases": [*cases, [40, 5, 5, 5, 5], [40]], "buckets": found}


class Chain(nn.Module):
    """Layers one after another, in an order of their own; a note is taken in backward before those of the first.

    One has a second name, as tied layers do, and one parameter is frozen.
    """

    ORDER = (0, 2, 1, 4, 3, 5)  # backward does not complete them in the order in which they were made

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
    """Lets every all-reduce finish before it returns: who does not wait for it is not found out here, but below."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == "c10d" and isinstance(result, tuple):
            result[-1].wait()
        return result


def _overlapped(learner: ModuleType, seed: int, cap: int) -> list[Any]:
    """Three steps; after each finish the gradients, and the sizes of the all-reduces: early, in backward, in all."""
    inputs, width, _ = draw_sizes(seed)
    model, alone = Chain(seed, inputs, width), Chain(seed, inputs, width)
    finish = learner.overlap(model, cap)
    found, truth, sent = [], [], []
    for number in range(3):
        batch = rows(seed + number, inputs, width)
        model.zero_grad()
        alone.zero_grad()
        early: list[int] = []
        with Settled(), CollectiveCounter() as counter:
            model.seen = lambda slopes, counter=counter, early=early: early.append(len(counter.records))
            square_loss(model, (my_rows(batch[0]), my_rows(batch[1]))).backward()
            in_backward = len(counter.records)
            finish()
        square_loss(alone, batch).backward()
        found += gradient_list(model)
        truth += gradient_list(alone)
        sent.append([[record.bytes for record in counter.records], early[0], in_backward, counter.calls["all_reduce"]])
    return [found, truth, sent]


def _both_overlapped(learner: ModuleType, seed: int, cap: int) -> list[list[Any]]:
    return [_overlapped(learner, seed, one) for one in (cap, 1)]


def overlapped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Several buckets, some of which hold several parameters; and a bucket for each. On 3 ranks."""
    _, width, _ = draw_sizes(seed)
    cap = int(8 * width * (width + 1) * random.Random(seed).uniform(1.06, 1.56))  # a layer's bytes, and some
    both = in_world(_both_overlapped, 3, learner, seed, cap)
    worlds = [[rank[case] for rank in both] for case in range(2)]
    return {
        "ranks": [3, 3],
        "gradients": [by_rank([rank[0] for rank in world]) for world in worlds],
        "whole": [by_rank([rank[1] for rank in world]) for world in worlds],
        "sent": [[rank[2] for rank in world] for world in worlds],
    }


class Waits:
    """Calls `note` whenever somebody waits for, or asks after, what was started; `attended` holds what was, or will be.

    A future that is only taken is not waited for: `then` may be told what to do when it is there.
    """

    NAMES = (
        (dist.Work, ("wait", "synchronize", "is_completed", "is_success", "get_future", "result")),
        (torch._C.Future, ("wait", "value", "done")),
    )

    def __init__(self, note: Callable[[], None]) -> None:
        self.attended: list[Any] = []
        self._own = [(of, name, getattr(of, name)) for of, names in self.NAMES for name in names]
        for of, name, method in self._own:

            def noting(it: Any, *args: Any, name: str = name, method: Any = method, **kwargs: Any) -> Any:
                if isinstance(it, dist.Work) and not any(it is one for one in self.attended):
                    self.attended.append(it)
                if name != "get_future":
                    note()
                return method(it, *args, **kwargs)

            setattr(of, name, noting)

    def undo(self) -> None:
        """Puts the methods back."""
        for of, name, method in self._own:
            setattr(of, name, method)


def _unwaited(learner: ModuleType, seed: int) -> list[Any]:
    """Rank 1 sends nothing until rank 0 waits for something, or is done. When is that, and what does rank 0 hold?"""
    model, alone = Chain(seed), Chain(seed)
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
    found = gradient_list(model)
    note()
    waits.undo()
    dist.barrier()  # neither leaves before the other is done
    square_loss(alone, (x, y)).backward()
    return [in_backward, found, gradient_list(alone), len(waits.attended)]


def unwaited(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Two ranks, the second late."""
    ranks = in_world(_unwaited, 2, learner, seed)
    return {
        "in backward": ranks[0][0][0],
        "attended": ranks[0][3],
        "gradients": np.array(ranks[0][1]),
        "whole": np.array(ranks[0][2]),
    }


class Fork(nn.Module):
    """Layers of one size side by side, between a first and a last one. `used` says which of them forward takes."""

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
    """Two steps in which the ranks use different layers: first 1 | 2 | 3, then 3 | 1 | 2; 4 is never used."""
    model, alone = Fork(seed), Fork(seed)
    finish = learner.overlap(model, 1)
    found, truth, sent = [], [], []
    for number in range(2):
        x, y = rows(seed + number)
        used = [(1 + (rank + 2 * number) % 3,) for rank in range(3)]
        model.zero_grad()
        alone.zero_grad()
        with Settled(), CollectiveCounter() as counter:
            F.mse_loss(model(my_rows(x), used[dist.get_rank()]), my_rows(y)).backward()
            finish()
        for rank in range(3):
            (F.mse_loss(alone(x.chunk(3)[rank], used[rank]), y.chunk(3)[rank]) / 3).backward()
        found += gradient_list(model)
        truth += [0.0 if np.isnan(one) else one for one in gradient_list(alone)]
        sent.append(counter.calls["all_reduce"])
    return [found, truth, sent]


def forked(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three ranks that use different parameters."""
    ranks = in_world(_forked, 3, learner, seed)
    return {
        "ranks": [3],
        "gradients": [by_rank([rank[0] for rank in ranks])],
        "whole": [by_rank([rank[1] for rank in ranks])],
        "calls": [rank[2] for rank in ranks],
    }


# -------------------------------------------------------------------------------------------------------------- shard
_torchs: list[int] = []  # calls of PyTorch's own sampler, which is what the exercise is to write
_sampler_iter = torch.utils.data.DistributedSampler.__iter__


def _noting(sampler: Any) -> Any:
    _torchs.append(1)
    return _sampler_iter(sampler)


torch.utils.data.DistributedSampler.__iter__ = _noting  # type: ignore[method-assign]


def _shards(learner: ModuleType, cases: list[tuple[int, int, int, int, bool, bool]]) -> dict[str, Any]:
    found, kinds = [], set()
    _torchs.clear()
    for length, ranks, epoch, seed, shuffle, drop_last in cases:
        how = {"epoch": epoch, "seed": seed, "shuffle": shuffle, "drop_last": drop_last}
        every = [learner.shard(length, rank, ranks, **how) for rank in range(ranks)]
        kinds |= {type_name(one) for one in every}
        every = [list(one) for one in every]
        kinds |= {f"list of {type_name(item)}" for one in every for item in one}
        found.append([[int(number) for number in one] for one in every])
    kinds -= {"list", "list of int"}
    return {"cases": [list(case) for case in cases], "shards": found, "kinds": sorted(kinds), "torchs": len(_torchs)}


def divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Lengths that the ranks divide, in order."""
    draw = random.Random(seed)
    cases = [(ranks * draw.randrange(2, 12), ranks, draw.randrange(5), seed, False, False) for ranks in (2, 3, 4)]
    return _shards(learner, cases)


def shuffled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Two epochs, and another seed, of a length that the ranks divide; and the state of the global generator."""
    epoch, seed = seed % 5, seed + 1  # a seed of 0 would not show
    length = 3 * random.Random(seed).randrange(6, 9)
    torch.manual_seed(seed)
    before = torch.get_rng_state()
    cases = [(length, 3, one, another, True, False) for one, another in ((0, 0), (epoch + 1, seed), (epoch + 2, seed))]
    found = _shards(learner, cases)
    return found | {"disturbed": not torch.equal(before, torch.get_rng_state())}


def padded(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Lengths that the ranks do not divide, and one that is smaller than half of them."""
    length = 4 * random.Random(seed).randrange(3, 6)
    cases = [(length + rest, 4, 2, seed, shuffle, False) for rest in (1, 3) for shuffle in (False, True)]
    return _shards(learner, [*cases, (2, 5, 0, seed, False, False), (1, 4, 1, seed, True, False)])


def dropped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The same with drop_last; and fewer samples than ranks, of which nothing is left."""
    length = 4 * random.Random(seed).randrange(3, 6)
    cases = [(length + rest, 4, 2, seed, shuffle, True) for rest in (0, 1, 3) for shuffle in (False, True)]
    return _shards(learner, [*cases, (3, 4, 0, seed, True, True)])


# --------------------------------------------------------------------------------------------------------- accumulate
def make_gpt(seed: int) -> GPT:
    """A tiny GPT in float64, with weights large enough that mistakes show."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(13, block_size=6, n_layer=1, n_head=2, hidden_dim=8))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.double()


def tokens(seed: int) -> tuple[Tensor, Tensor]:
    """12 sequences of 6 tokens and their targets, some of which are easy."""
    x, y = torch.randint(13, (2, ROWS, 6), generator=torch.Generator().manual_seed(seed))
    return x, torch.where(torch.arange(ROWS)[:, None] < 5, x, y)


def token_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross-entropy."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def _accumulated(learner: ModuleType, seed: int, k: int, old: bool) -> list[Any]:
    """What one rank holds; and of each forward and backward: rows, what was sent, DDP's flag, a sum of the tokens.

    What was sent before it: 0 nothing, 1 a number such as the loss, 2 gradients.
    """
    model, alone = make_gpt(seed), make_gpt(seed)
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
            output.register_hook(lambda slopes: events.append([0, sent, bool(ddp.require_backward_grad_sync), 0]))

        hook = model.register_forward_hook(forward)
        loss = learner.accumulate(ddp, my_rows(x), my_rows(y), k)
        hook.remove()
    whole = token_loss(alone, x, y)
    whole.backward()
    return [
        type_name(loss),
        plain_number(loss),
        whole.item(),
        gradient_list(model),
        gradient_list(alone),
        events,
        [record.bytes for record in counter.records if record.collective == "all_reduce" and record.bytes > 8],
    ]


def accumulated(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three micro-batches on 2 ranks."""
    return _all_accumulated([in_world(_accumulated, 2, learner, seed, 3, False)])


def over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """With gradients in place from before; and as one micro-batch, on 3 ranks."""
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
