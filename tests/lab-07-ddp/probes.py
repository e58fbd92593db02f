"""Probes of Lab 07: each runs the learner's code in real worlds of 1 to 4 ranks, and returns its results.

Models compute in float64, so that the order of additions changes only the 16th digit. Numbers in float32 and bfloat16
are whole numbers, whose sums and means over ranks are exact in any order. Only ranks compute: a probe's process makes
no tensors that need threads. Answers have values in the order of the ranks; `whole` is the value that one process
computes from the whole batch.
"""

import mmap
import random
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from rankzero.exercises.probes.collective_waits import SettledCounter, Waits
from rankzero.exercises.probes.loader import source_lines
from rankzero.exercises.probes.rank_probes import Place, StuckRanksError, let_go_on, run_on_ranks, wait_to_go_on
from rankzero.exercises.probes.untrusted_values import flat, gradients, plain_number, type_name
from rankzero.learn.distributed.collectives import NAMESPACES, SILENT, CollectiveCounter
from rankzero.learn.models.gpt import GPT, GPTConfig

ROWS = 12  # divides by 1, 2, 3 and 4 ranks
SECONDS = 4.0  # a world's time limit; a right answer takes a fortieth of it on an idle machine


_torchs_init, _torchs_reducer = DistributedDataParallel.__init__, c10d.Reducer.__init__


def not_by_hand(*_: Any, **__: Any) -> None:
    """Replaces PyTorch's constructor, under whatever name a file imports the class. This process only runs probes."""
    raise RuntimeError("DistributedDataParallel is PyTorch's answer; yours does without it.")


DistributedDataParallel.__init__ = not_by_hand  # type: ignore[method-assign]
c10d.Reducer.__init__ = not_by_hand  # type: ignore[method-assign]


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


def draw_ranks(seed: int, *choices: int) -> int:
    """Returns one of these numbers of ranks."""
    return random.Random(f"ranks {seed}").choice(choices)


def by_rank(every: list[list[float]]) -> np.ndarray:
    """Returns the lists of all ranks as an array [ranks, numbers]."""
    return np.array(every, dtype=np.float64)


def my_rows(x: Tensor) -> Tensor:
    """Returns this rank's rows of a batch, which are consecutive."""
    return x.chunk(dist.get_world_size())[dist.get_rank()]


# -------------------------------------------------------------------------------------- exchange and ring_all_reduce
DTYPE_NAMES = sorted(str(dtype) for dtype in vars(torch).values() if isinstance(dtype, torch.dtype))
KEPT_HANDLES: list[Any] = []  # of messages: gloo drops a message whose handle is gone, and another rank would hang


class MessageSizes:
    """The lengths and dtypes of all messages between the ranks of a world, in memory that the ranks share."""

    MOST_RANKS, MOST_MESSAGES = 4, 128  # later messages of a pair are not compared

    def __init__(self, file: Path) -> None:
        self._file = file  # the learner's
        with tempfile.TemporaryFile() as shared:  # the sandbox refuses shared memory without a file: it is not counted
            shared.truncate(16 * self.MOST_RANKS**2 * self.MOST_MESSAGES)
            self._sizes = memoryview(mmap.mmap(shared.fileno(), 0)).cast("q")
        self._counts: dict[tuple[int, int, int], int] = {}  # of this rank's messages, by kind, sender and receiver

    def mismatch(self, name: str, peer: int, length: int, dtype: torch.dtype) -> str:
        """Notes a message of this rank. Returns a sentence if the other rank's half has another length or dtype."""
        rank, receives = dist.get_rank(), int(name != "send")
        sender, receiver = (peer, rank) if receives else (rank, peer)
        number = self._counts.get((receives, sender, receiver), 0)
        self._counts[receives, sender, receiver] = number + 1
        if number >= self.MOST_MESSAGES:
            return ""
        place = 2 * ((sender * self.MOST_RANKS + receiver) * self.MOST_MESSAGES + number)
        size = 1 + length * len(DTYPE_NAMES) + DTYPE_NAMES.index(str(dtype))
        self._sizes[place + receives] = size
        other = self._sizes[place + 1 - receives]
        if other in (0, size):  # 0: not known yet
            return ""
        halves = [divmod(half - 1, len(DTYPE_NAMES)) for half in ((other, size) if receives else (size, other))]
        (sent, sent_dtype), (received, received_dtype) = halves
        lines = [frame.lineno for frame in traceback.extract_stack() if frame.filename == str(self._file)]
        caller = f", called at {self._file.name}, line {lines[0]}" if len(lines) > 1 else ""
        told = [f"length {sent}", f"length {received}"]
        if sent == received:
            told = [DTYPE_NAMES[number].removeprefix("torch.") for number in (sent_dtype, received_dtype)]
        halves_told = f"sends a message of {told[0]}, and rank {receiver} receives it in a tensor of {told[1]}"
        return f"rank {sender} {halves_told}{caller}"


def missing_rank(name: str, peer: int) -> str:
    """Returns a sentence if there is no such rank."""
    ranks, verb = dist.get_world_size(), "sends to" if name == "send" else "receives from"
    exists = 0 <= peer < ranks
    return "" if exists else f"a rank {verb} rank {peer}, and there are ranks 0 to {ranks - 1}: modulo K is missing"


class Messages(TorchDispatchMode):
    """Records the other rank and the size of every message, and the names of all other collectives.

    Messages without numbers are only counted in `begun`. `first` is the first number that was sent, or None. Refuses
    what would end or hang the process: a rank that does not exist, and a message that differs in length or dtype from
    the tensor that receives it.
    """

    def __init__(self, sizes: MessageSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.firsts: list[float] = []  # the first number of each message that was sent
        self.sent: list[list[int]] = []
        self.received: list[list[int]] = []
        self.others: list[str] = []
        self.begun = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).split(".")[1]
        counts = func.namespace in NAMESPACES and name not in SILENT
        if counts:
            if name in ("send", "recv_"):
                self.begun += 1
                row = [int(args[2]), sum(tensor.numel() for tensor in args[0])]
                failure = missing_rank(name, row[0])
                if not failure and args[3] == 0:
                    failure = self.sizes.mismatch(name, row[0], row[1], args[0][0].dtype)
                if failure:
                    raise RuntimeError(failure)  # here: reports leave out frames of this name only
                if row[1]:
                    (self.sent if name == "send" else self.received).append(row)
                if name == "send" and row[1]:
                    self.firsts.append(float(torch.cat([tensor.flatten() for tensor in args[0]])[0]))
            else:
                self.others.append(name.strip("_"))
        result = func(*args, **(kwargs or {}))
        if counts:
            KEPT_HANDLES.append(result)
        return result


class OneStep(Messages):
    """Refuses what would end or hang the process in one step of the ring: a wrong rank, a tensor of a wrong length."""

    def __init__(self, outgoing: Tensor, incoming: Tensor, sizes: MessageSizes) -> None:
        super().__init__(sizes)
        self.lengths = {"send": outgoing.numel(), "recv_": incoming.numel()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).split(".")[1] if func.namespace == "c10d" else ""
        if name in self.lengths:
            rank, ranks, peer = dist.get_rank(), dist.get_world_size(), int(args[2])
            verb, other = ("sends to", "rank + 1") if name == "send" else ("receives from", "rank - 1")
            if failure := missing_rank(name, peer):
                raise RuntimeError(failure)
            if peer != (rank + (1 if name == "send" else -1)) % ranks:
                raise RuntimeError(f"a rank {verb} another rank than {other}, modulo K")
            length = sum(tensor.numel() for tensor in args[0])
            if length != self.lengths[name] and length in self.lengths.values():
                raise RuntimeError(
                    "a message is as long as the other tensor: `incoming` and `outgoing` differ in length"
                )
        return super().__torch_dispatch__(func, types, args, kwargs)


DTYPES = (torch.float64, torch.float32, torch.bfloat16)
Case = tuple[tuple[int, ...], torch.dtype]


def numbers(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    """Returns random numbers; whole numbers in a dtype whose sums would otherwise depend on their order."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.float64:
        return torch.randn(shape, generator=generator, dtype=dtype)
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


def _exchanged(learner: ModuleType, seed: int, cases: list[Case], sizes: MessageSizes) -> list[Any]:
    """Returns one rank's incoming numbers and messages; each rank sends `rank` rows more than the case's shape has."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    results: list[list[Any]] = []
    for number, ((length, *other), dtype) in enumerate(cases):
        shapes = [(length + sender, *other) for sender in (rank, (rank - 1) % ranks)]
        outgoing = numbers(shapes[0], dtype, seed + 100 * number + rank)
        given, incoming = outgoing.clone(), torch.full(shapes[1], 99.0, dtype=dtype)
        waits = Waits()
        with OneStep(outgoing, incoming, sizes) as messages:
            learner.exchange(outgoing, incoming)
        waits.undo()
        if results and results[-1][1] and not (outgoing.numel() or messages.begun or messages.others):
            raise RuntimeError("a rank had no number to send, and exchange returned without receiving either")
        changed = int((outgoing != given).sum())
        message_counts = [changed, max(0, messages.begun - len(waits.attended))]
        results.append([flat_list([incoming]), messages.sent, messages.received, messages.others, *message_counts])
    return results


def exchanges(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Exchanges tensors of three dtypes on 3 or 4 ranks; in one case, rank 0 has no number to send."""
    draw = random.Random(seed)
    shapes = [(draw.randrange(2, 9),), (draw.randrange(1, 5), draw.randrange(1, 5)), (draw.randrange(1, 60),), (0, 2)]
    cases: list[Case] = [(shape, dtype) for shape, dtype in zip(shapes, (*DTYPES, torch.float64), strict=True)]
    names = ("incoming", "sent", "received", "others", "changed", "unfinished")
    return _until_stuck(_exchanged, learner, seed, (draw_ranks(seed, 3, 4),), cases, names)


def _ring(learner: ModuleType, seed: int, cases: list[Case], sizes: MessageSizes) -> list[Any]:
    """Returns one rank's tensor after the call, and its messages, for tensors of several shapes."""
    results = []
    for number, (shape, dtype) in enumerate(cases):
        tensor = numbers(shape, dtype, seed + 100 * number + dist.get_rank())
        given = flat_list([tensor])
        with Messages(sizes) as messages:
            learner.ring_all_reduce(tensor)
        # With fewer numbers than ranks, the first chunk may be empty. Whole numbers of two ranks may be equal.
        ranks, firsts = dist.get_world_size(), messages.firsts
        can_compare = len(given) >= ranks > 1 and dtype == torch.float64
        first_sent = firsts[0] if can_compare and firsts else None
        last_sent = firsts[ranks - 1 :] if can_compare and len(firsts) == 2 * (ranks - 1) else []
        sums = flat_list([tensor])
        results.append([sums, messages.sent, messages.received, messages.others, first_sent, given, last_sent])
    return results


RING_NAMES = ("sums", "sent", "received", "others", "first", "given", "last")


def ring(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sums tensors of three dtypes, whose length is a multiple of the ranks, and is not, on 3 or 4 ranks."""
    draw = random.Random(seed)
    lengths = [12 * draw.randrange(1, 9), 12 * draw.randrange(1, 9) + 7, 12 * draw.randrange(2, 9) + 2]
    cases: list[Case] = [((length,), dtype) for length, dtype in zip(lengths, DTYPES, strict=True)]
    cases.append(((5, draw.randrange(3, 12, 2)), torch.float64))
    return _until_stuck(_ring, learner, seed, (draw_ranks(seed, 3, 4),), cases, RING_NAMES)


def ring_short(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Sums tensors with fewer numbers than ranks and with no number, on one rank and on others than `ring`."""
    others = [ranks for ranks in (2, 3, 4) if ranks != draw_ranks(seed, 3, 4)]
    ranks = random.Random(seed).choice(others)
    shapes: list[tuple[int, ...]] = [(ranks - 1,), (1, 1), (0,), (4 * ranks + 1,)]
    cases: list[Case] = [(shape, torch.float64) for shape in shapes]
    return _until_stuck(_ring, learner, seed, (1, ranks), cases, RING_NAMES)


_stuck: list[Place] = []  # where the ranks of a ring hang: kept so that a second ring need not hang again
_stuck_lines: list[str] = []  # the source of these places


def _until_stuck(
    function: Callable[..., list[Any]],
    learner: ModuleType,
    seed: int,
    sizes: tuple[int, ...],
    cases: list[Case],
    names: tuple[str, ...],
) -> dict[str, Any]:
    """Returns each of these results as lists by world and case, whose elements are lists by rank."""
    worlds: list[list[Any]] = []
    try:
        for ranks in sizes if not _stuck else ():
            worlds.append(in_world(function, ranks, learner, seed, cases, MessageSizes(Path(str(learner.__file__)))))
    except StuckRanksError as error:
        _stuck.extend(error.places)
        _stuck_lines.extend(source_lines(". ".join(map(str, error.places)), Path(str(learner.__file__))))
    each = [(world, number) for world in worlds for number in range(len(cases))]
    return {
        "stuck": [place.call or "done" * place.done for place in _stuck],
        "places": [str(place) for place in _stuck],
        "source": _stuck_lines,
        "ranks": [len(world) for world, _ in each],
        "shapes": [list(cases[number][0]) for _, number in each],
        "dtypes": [str(cases[number][1]).removeprefix("torch.") for _, number in each],
    } | {name: [[rank[number][place] for rank in world] for world, number in each] for place, name in enumerate(names)}


# ------------------------------------------------------------------------------------------ same_start, data_parallel
Sizes = tuple[int, int, int]  # of the input, of the hidden layer, of the output


def draw_sizes(seed: int) -> Sizes:
    """Returns small random sizes, so that different models have different costs."""
    draw = random.Random(f"sizes {seed}")
    return draw.randrange(3, 10), draw.randrange(3, 10), draw.randrange(3, 10)


def low_parameters() -> nn.ParameterList:
    """Returns parameters of two smaller dtypes; `square_loss` gives them gradients of whole numbers."""
    return nn.ParameterList([torch.zeros(3, dtype=torch.bfloat16), torch.zeros(2, 1, dtype=torch.float32)])


class Net(nn.Module):
    """Three layers, two buffers that forward reads, and special cases of gradients.

    `twin` is a layer with the weight of `last`, so that weight is used twice. If `special`, `middle` is frozen, a layer
    `spare` is never used, `grid` has another memory layout, and there are parameters and buffers of other dtypes.
    """

    def __init__(self, seed: int, sizes: Sizes, *, special: bool = False) -> None:
        super().__init__()
        torch.manual_seed(seed)
        inputs, inner, outputs = sizes
        self.first = nn.Linear(inputs, inner)
        self.middle = nn.Linear(inner, outputs)
        self.last = nn.Linear(outputs, outputs)
        self.twin = nn.Linear(outputs, outputs)
        self.twin.weight = self.last.weight
        self.register_buffer("shift", torch.randn(outputs))
        self.register_buffer("scale", torch.rand(outputs) + 0.5, persistent=False)
        if special:
            self.middle.requires_grad_(False)
            self.spare = nn.Linear(outputs, 3)
            grid = torch.randn(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)
            self.grid = nn.Parameter(grid, requires_grad=False)
        self.seen: Callable[[Tensor], None] | None = None  # called in backward, before the first layer's gradients
        self.double()
        self.low = low_parameters() if special else nn.ParameterList()
        if special:
            self.register_buffer("count", torch.randint(2**40, 2**50, (2,)), persistent=False)
            self.register_buffer("mask", torch.rand(9) < 0.5)

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


def square_loss(model: Any, batch: tuple[Tensor, Tensor], *, whole: bool = False) -> Tensor:
    """Returns the mean squared error, and gives the parameters in `low` a gradient of 12, 24, ... on rank 0, 1, ...

    `whole` is for the model of a single process: its gradient is the mean over the ranks.
    """
    loss = F.mse_loss(model(batch[0]), batch[1])
    gradient = 6.0 * (dist.get_world_size() + 1) if whole else 12.0 * (dist.get_rank() + 1)
    for parameter in model.low:  # after the loss, so that backward completes these gradients first, the last one first
        loss = loss + parameter.double().sum() * gradient
    return loss


def add_to_gradients(model: nn.Module, number: float) -> None:
    """Adds a number to every existing gradient."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = parameter.grad + number


def identities(model: nn.Module) -> list[int]:
    """Returns numbers that change if the model gets other tensors, other `requires_grad` or another mode."""
    tensors = [*model.parameters(), *model.buffers()]
    return [int(model.training), *(number for tensor in tensors for number in (id(tensor), int(tensor.requires_grad)))]


def memory_of(model: nn.Module) -> list[Any]:
    """Returns where each tensor has its numbers, and in which memory layout."""
    return [(tensor.data_ptr(), tensor.stride()) for tensor in (*model.parameters(), *model.buffers())]


def _started(learner: ModuleType, seed: int) -> list[Any]:
    model = Net(seed + 17 * dist.get_rank(), draw_sizes(seed), special=True).train(bool(seed % 2))
    before, memory = identities(model), memory_of(model)
    with SettledCounter() as counter:
        learner.same_start(model)
    return [
        flat_list(model.parameters()),
        flat_list(model.buffers()),
        sorted(record.bytes for record in counter.records if record.collective == "broadcast" and record.bytes),
        sorted({record.collective for record in counter.records}),
        sum(one != other for one, other in zip(before, identities(model), strict=True)),
        counter.unwaited,
        sum(one != other for one, other in zip(memory, memory_of(model), strict=True)),
    ]


def started(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Gives 2 to 4 ranks with different models, with frozen parameters and buffers of other dtypes, one start."""
    ranks = in_world(_started, draw_ranks(seed, 2, 3, 4), learner, seed)
    return {
        "parameters": by_rank([rank[0] for rank in ranks]),
        "buffers": by_rank([rank[1] for rank in ranks]),
        "bytes": [rank[2] for rank in ranks],
        "calls": [rank[3] for rank in ranks],
        "changed": [rank[4] for rank in ranks],
        "unwaited": [rank[5] for rank in ranks],
        "moved": [rank[6] for rank in ranks],
    }


def _steps(learner: ModuleType, seed: int, special: bool) -> list[Any]:
    """Runs two backward passes after clearing and one over the rank's old gradients, and computes the right values.

    The models of the ranks differ before the call. The second pass is in eval mode. The third pass shows a hook that
    averages only the gradient that a backward pass adds.
    """
    sizes = draw_sizes(seed)
    single_process = Net(seed, sizes, special=special)
    model = Net(seed + 17 * dist.get_rank(), sizes, special=special)
    learner.data_parallel(model)
    start = weight_list(model)
    computed, expected_values, calls, sent, early, unwaited = [], [], [], [], [], []
    for number in range(3):
        batch = rows(seed + number, sizes[0], sizes[2])
        model.train(number != 1)
        if number < 2:
            model.zero_grad()
            single_process.zero_grad()
        else:  # as after a micro-batch without averaging; multiples of 12, as the gradients of `square_loss`
            add_to_gradients(model, 12.0 * (1 + dist.get_rank()))
            add_to_gradients(single_process, 6.0 * (1 + dist.get_world_size()))
        with SettledCounter() as counter:
            model.seen = lambda gradient, counter=counter: early.append(len(counter.records))
            loss = square_loss(model, (my_rows(batch[0]), my_rows(batch[1])))
            forward = len(counter.records)
            loss.backward()
        unwaited.append(counter.unwaited)
        square_loss(single_process, batch, whole=True).backward()
        computed += gradient_list(model)
        expected_values += gradient_list(single_process)
        calls.append([forward, counter.calls["all_reduce"], len(counter.records)])
        sent.append(counter.bytes["all_reduce"])
    return [computed, expected_values, calls, sent, early, start, unwaited]


def _stepped(world: list[Any]) -> dict[str, Any]:
    return {
        "ranks": [len(world)],
        "gradients": [by_rank([rank[0] for rank in world])],
        "whole": [by_rank([rank[1] for rank in world])],
        "calls": [[rank[2] for rank in world]],
        "bytes": [[rank[3] for rank in world]],
        "early": [[rank[4] for rank in world]],
        "start": by_rank([rank[5] for rank in world]),
        "unwaited": [[rank[6] for rank in world]],
    }


def steps(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs three backward passes on 3 or 4 ranks."""
    return _stepped(in_world(_steps, draw_ranks(seed, 3, 4), learner, seed, False))


def special(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Runs three backward passes with frozen, tied and unused layers and three dtypes, on 2 or 3 ranks."""
    return _stepped(in_world(_steps, draw_ranks(seed + 1, 2, 3), learner, seed, True))


# --------------------------------------------------------------------------------- make_buckets, reduce_bucket, overlap
def buckets(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Makes buckets of parameters of random sizes and three dtypes, some frozen; returns their places in the model."""
    draw = random.Random(seed)
    cases, places, names = [], [], []
    for case in range(9):
        cap = (1, 100, 10**6, 40, 40)[case] if case < 5 else draw.randrange(40, 200)
        sizes = (
            [5] * 4 if case in (3, 4) else [draw.choice([1, 3, 5, 10, 12, 25]) for _ in range(draw.randrange(6, 12))]
        )
        dtypes = [torch.float32 if case in (1, 3) else draw.choice(DTYPES) for _ in sizes]  # 3: two of 20 bytes are 40
        if case == 4:  # float32 is opened, closed, and opened again after bfloat16
            dtypes = [torch.float32, torch.float32, torch.bfloat16, torch.float32]
        frozen = [case not in (3, 4) and draw.random() < 0.25 for _ in sizes]
        parameters = [
            nn.Parameter(torch.zeros(size, dtype=dtype), requires_grad=not fixed)
            for size, dtype, fixed in zip(sizes, dtypes, frozen, strict=True)
        ]
        places.append(
            _places(learner.make_buckets((p for p in parameters) if case % 2 else parameters, cap), parameters)
        )
        cases.append([cap, *sizes])
        names.append([f"{'frozen ' * fixed}{str(dtype)[6:]}" for dtype, fixed in zip(dtypes, frozen, strict=True)])
    places.append(_places(learner.make_buckets([], 40), []))
    return {"cases": [*cases, [40]], "dtypes": [*names, []], "buckets": places}


def _places(returned: Any, parameters: list[nn.Parameter]) -> list[list[int]]:
    """Returns the buckets with each parameter's place in the model, and -1 for another parameter."""
    place = {id(parameter): number for number, parameter in enumerate(parameters)}
    return [[place.get(id(parameter), -1) for parameter in bucket] for bucket in returned]


def make_bucket(seed: int, dtype: torch.dtype) -> list[nn.Parameter]:
    """Returns parameters of one dtype and random shapes, the same on every rank.

    One has a single number, and one has four dimensions in the channels_last layout.
    """
    draw = random.Random(f"bucket {seed}")
    shapes = [
        (draw.randrange(1, 6), draw.randrange(1, 6)),
        (),
        (draw.randrange(2, 30),),
        (2, 3, draw.randrange(1, 4), 2),
    ]
    return [nn.Parameter(laid_out(torch.zeros(shape, dtype=dtype))) for shape in draw.sample(shapes, 4)]


def laid_out(tensor: Tensor) -> Tensor:
    """Returns the tensor, in the channels_last layout if it has four dimensions."""
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def gradient_of(parameter: Tensor, seed: int, rank: int, place: int) -> Tensor:
    """Returns the gradient that a rank has for a parameter: in smaller dtypes a whole number times 12."""
    return laid_out(numbers(tuple(parameter.shape), parameter.dtype, seed + 1000 * rank + place) * 12)


class Flat(SettledCounter):
    """Looks into the all-reduce of a bucket: `ordered` tells whether it has the gradients in the bucket's order.

    Refuses one that leaves out gradients that are None: ranks that lack other gradients would send another length.
    """

    def __init__(self, bucket: list[nn.Parameter]) -> None:
        super().__init__()
        gradients = [parameter.grad for parameter in bucket]
        self.present = torch.cat([gradient.flatten() for gradient in gradients if gradient is not None])
        pairs = zip(bucket, gradients, strict=True)
        self.whole = torch.cat(
            [(torch.zeros_like(p) if grad is None else grad).detach().flatten() for p, grad in pairs]
        )
        self.ordered = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func).startswith("c10d.allreduce_"):
            sent = args[0][0].detach().flatten().to(self.whole.dtype)
            if len(sent) == len(self.present) < len(self.whole) and torch.equal(sent, self.present):
                raise RuntimeError("gradients that are None are left out of the flat tensor: put zeros in their places")
            if len(sent) == len(self.whole):  # divided by the ranks before, or after
                self.ordered = any(torch.allclose(sent * k, self.whole) for k in (1, dist.get_world_size()))
        return super().__torch_dispatch__(func, types, args, kwargs)


def _reduced(learner: ModuleType, seed: int) -> list[Any]:
    """Reduces a bucket of each dtype, of which ranks lack different gradients; then one where rank 0 is the first."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    computed, whole, calls, orders, wrong_dtypes = [], [], [], [], 0
    for dtype in DTYPES:
        bucket = make_bucket(seed, dtype)
        missing = [{sender % 4, 3} if sender else {0} for sender in range(ranks)]  # of each rank
        for place, parameter in enumerate(bucket):
            every = [gradient_of(parameter, seed, sender, place) for sender in range(ranks)]
            parameter.grad = None if place in missing[rank] else every[rank]
            given = [gradient for sender, gradient in enumerate(every) if place not in missing[sender]]
            whole += flat_list([sum(given, torch.zeros_like(every[0])) / ranks])
        with Flat(bucket) as counter:
            finish = learner.reduce_bucket(bucket)
            started = len(counter.records)
            finish()
        shapes = [None if p.grad is None else p.grad.shape == p.shape and p.grad.dtype == p.dtype for p in bucket]
        wrong_dtypes += sum(shape is False for shape in shapes)
        computed += flat_list(torch.full_like(p, torch.nan) if p.grad is None else p.grad for p in bucket)
        calls.append([started, len(counter.records), *(record.bytes for record in counter.records)])
        orders.append(counter.ordered)
    return [computed, whole, calls, wrong_dtypes, orders, *_late(learner, seed)]


def _late(learner: ModuleType, seed: int) -> list[Any]:
    """The other ranks start their all-reduce when rank 0 waits or has finished; returns when that is, and gradients."""
    bucket = make_bucket(seed + 1, torch.float64)
    ranks, rank, whole = dist.get_world_size(), dist.get_rank(), []
    for place, parameter in enumerate(bucket):
        every = [gradient_of(parameter, seed, sender, place) for sender in range(ranks)]
        parameter.grad, total = every[rank], sum(every, torch.zeros_like(every[0]))
        whole += flat_list([total / ranks])
    early: list[bool] = []
    starting = True

    def note() -> None:
        if rank == 0 and not early:
            early.append(starting)
            let_go_on()

    if rank:
        wait_to_go_on()
    waits = Waits(note)
    finish = learner.reduce_bucket(bucket)
    starting = False
    finish()
    computed = flat_list(torch.full_like(p, torch.nan) if p.grad is None else p.grad for p in bucket)
    note()
    waits.undo()
    dist.barrier()  # no rank ends before the other ranks have finished
    return [early, computed, whole]


def reduced(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Reduces buckets on 3 or 4 ranks."""
    ranks = in_world(_reduced, draw_ranks(seed, 3, 4), learner, seed)
    return {
        "ranks": [len(ranks)],
        "gradients": [by_rank([rank[0] for rank in ranks])],
        "whole": [by_rank([rank[1] for rank in ranks])],
        "calls": [rank[2] for rank in ranks],
        "dtypes": [rank[3] for rank in ranks],
        "in order": [rank[4] for rank in ranks],
        "early": ranks[0][5],
        "late": np.array(ranks[0][6]),
        "late whole": np.array(ranks[0][7]),
    }


class Chain(nn.Module):
    """Layers in another order than that of their creation; `seen` is called before the first layer's gradients.

    The weight of one layer is tied to that of another module, which forward does not call, one parameter is frozen, and
    two have a dtype of their own.
    """

    ORDER = (0, 2, 1, 4, 3, 5)  # so that backward does not complete the layers in the order of their creation

    def __init__(self, seed: int, inputs: int = 5, width: int = 4) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.ModuleList(nn.Linear(width if n else inputs, width) for n in range(6))
        self.tied = nn.Linear(width, width, bias=False)
        self.layers[3].weight = self.tied.weight
        self.frozen = nn.Parameter(torch.rand(width) + 0.5, requires_grad=False)
        self.seen: Callable[[Tensor], None] | None = None
        self.double()
        self.low = low_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """[b, inputs] -> [b, width]"""
        for number in self.ORDER:
            x = self.layers[number](x)
            if number == 0 and self.seen and x.requires_grad:
                x.register_hook(self.seen)
            x = torch.tanh(x)
        return x * self.frozen


def _overlapped(learner: ModuleType, seed: int, cap: int) -> list[Any]:
    """Makes three steps; returns gradients and all-reduces: their sizes, and the numbers early and in backward.

    The second step is in eval mode, the third begins with gradients of zeros.
    """
    inputs, width, _ = draw_sizes(seed)
    model, single_process = Chain(seed, inputs, width), Chain(seed, inputs, width)
    finish = learner.overlap(model, cap)
    computed, expected_values, sent = [], [], []
    for number in range(3):
        batch = rows(seed + number, inputs, width)
        model.train(number != 1)
        model.zero_grad(set_to_none=number != 2)
        single_process.zero_grad()
        early: list[int] = []
        with SettledCounter() as counter:
            model.seen = lambda gradient, counter=counter, early=early: early.append(len(counter.records))
            square_loss(model, (my_rows(batch[0]), my_rows(batch[1]))).backward()
            in_backward = len(counter.records)
            finish()
        square_loss(single_process, batch, whole=True).backward()
        computed += gradient_list(model)
        expected_values += gradient_list(single_process)
        sent.append([[record.bytes for record in counter.records], early[0], in_backward, len(counter.records)])
    return [computed, expected_values, sent]


def _both_overlapped(learner: ModuleType, seed: int, cap: int) -> list[list[Any]]:
    return [_overlapped(learner, seed, bucket_cap) for bucket_cap in (cap, 1)]


def overlapped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Overlaps on 2 to 4 ranks, with buckets of several parameters and with a bucket per parameter."""
    _, width, _ = draw_sizes(seed)
    cap = int(8 * width * (width + 1) * random.Random(seed).uniform(1.06, 1.56))  # slightly more than a layer's bytes
    both = in_world(_both_overlapped, draw_ranks(seed, 2, 3, 4), learner, seed, cap)
    worlds = [[rank[case] for rank in both] for case in range(2)]
    return {
        "ranks": [len(world) for world in worlds],
        "gradients": [by_rank([rank[0] for rank in world]) for world in worlds],
        "whole": [by_rank([rank[1] for rank in world]) for world in worlds],
        "sent": [[rank[2] for rank in world] for world in worlds],
    }


def _unwaited(learner: ModuleType, seed: int) -> list[Any]:
    """Rank 1 sends nothing until rank 0 waits or has finished; returns when that is, and rank 0's gradients."""
    model, single_process = Chain(seed), Chain(seed)
    x, y = rows(seed)
    finish = learner.overlap(model, 1)
    loss = square_loss(model, (my_rows(x), my_rows(y)))
    in_backward: list[bool] = []
    backward = True

    def note() -> None:
        if dist.get_rank() == 0 and not in_backward:
            in_backward.append(backward)
            let_go_on()

    waits = Waits(note)
    if dist.get_rank() == 1:
        wait_to_go_on()
    loss.backward()
    backward = False
    finish()
    computed = gradient_list(model)
    note()
    waits.undo()
    dist.barrier()  # no rank ends before the other rank has finished
    square_loss(single_process, (x, y), whole=True).backward()
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
    """Makes two steps with one layer in a bucket, and two with two layers; layer 4 is never used.

    In the first step ranks 0 to 2 use layers 1, 2, 3, and in the second 3, 1, 2, or all of these.
    """
    computed, expected_values, sent = [], [], []
    for cap, number in ((1, 0), (1, 1), (400, 0), (400, 1)):
        if not number:
            model, single_process = Fork(seed), Fork(seed)
            finish = learner.overlap(model, cap)
        x, y = rows(seed + number)
        used = [(1 + (rank + 2 * number) % 3,) if cap == 1 or not number else (1, 2, 3) for rank in range(3)]
        model.zero_grad()
        single_process.zero_grad()
        with SettledCounter() as counter:
            F.mse_loss(model(my_rows(x), used[dist.get_rank()]), my_rows(y)).backward()
            finish()
        for rank in range(3):
            (F.mse_loss(single_process(x.chunk(3)[rank], used[rank]), y.chunk(3)[rank]) / 3).backward()
        computed += gradient_list(model)
        expected_values += [0.0 if np.isnan(number) else number for number in gradient_list(single_process)]
        if cap == 1:
            sent.append(len(counter.records))
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
_sampler_init = torch.utils.data.DistributedSampler.__init__


def _noting(*arguments: Any, **settings: Any) -> None:
    _torchs.append(1)
    _sampler_init(*arguments, **settings)


torch.utils.data.DistributedSampler.__init__ = _noting  # type: ignore[method-assign]


def _shards(learner: ModuleType, cases: list[tuple[int, int, int, int, bool, bool]]) -> dict[str, Any]:
    """Returns the shards of every rank. What has its default value is left out of the call on odd ranks."""
    by_case, kinds = [], set()
    _torchs.clear()
    for length, ranks, epoch, seed, shuffle, drop_last in cases:
        settings: dict[str, Any] = {"seed": seed, "shuffle": shuffle, "drop_last": drop_last}
        defaults = {"seed": 0, "shuffle": True, "drop_last": False}
        short = {name: value for name, value in settings.items() if value != defaults[name]}
        shards = [
            learner.shard(length, rank, ranks, epoch=epoch, **(short if rank % 2 else settings))
            for rank in range(ranks)
        ]
        kinds |= {type_name(shard) for shard in shards}
        shards = [list(shard) for shard in shards]
        kinds |= {f"list of {type_name(item)}" for shard in shards for item in shard}
        by_case.append([[int(number) for number in shard] for shard in shards])
    kinds -= {"list", "list of int"}
    return {"cases": [list(case) for case in cases], "shards": by_case, "kinds": sorted(kinds), "torchs": len(_torchs)}


def divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Shards data sets in order, with lengths that are multiples of the ranks."""
    draw = random.Random(seed)
    cases = [(ranks * draw.randrange(2, 12), ranks, draw.randrange(5), seed, False, False) for ranks in (1, 2, 3, 4)]
    return _shards(learner, cases)


def shuffled(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Shards a data set in several epochs and with several seeds, and tells whether the global random state changed."""
    epoch, seed = seed % 5, seed + 1  # a seed of 0 would have no effect
    draw = random.Random(seed)
    ranks = draw.randrange(2, 6)
    length = ranks * draw.randrange(6, 9)
    torch.manual_seed(seed)
    before = torch.get_rng_state()
    draws = ((0, 0), (epoch + 1, seed), (epoch + 2, seed))
    cases = [(length, ranks, case_epoch, case_seed, True, False) for case_epoch, case_seed in draws]
    shards = _shards(learner, cases)
    return shards | {"disturbed": not torch.equal(before, torch.get_rng_state())}


def padded(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Shards data sets whose lengths are no multiples of the ranks; one has fewer samples than half of the ranks."""
    draw = random.Random(seed)
    ranks, epoch = draw.randrange(3, 7), draw.randrange(5)
    length = ranks * draw.randrange(3, 6)
    remainders = (1, ranks - 1)
    cases = [(length + more, ranks, epoch, seed, shuffle, False) for more in remainders for shuffle in (False, True)]
    return _shards(learner, [*cases, (2, 5, 0, seed, False, False), (1, 4, 1, 0, True, False)])


def dropped(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Shards data sets with drop_last; one has fewer samples than ranks, so that no sample is left."""
    draw = random.Random(seed)
    ranks, epoch = draw.randrange(3, 7), draw.randrange(5)
    length = ranks * draw.randrange(3, 6)
    remainders = (0, 1, ranks - 1)
    cases = [(length + more, ranks, epoch, seed, shuffle, True) for more in remainders for shuffle in (False, True)]
    return _shards(learner, [*cases, (3, 4, 0, seed, True, True)])


# --------------------------------------------------------------------------------------------------------- accumulate
IGNORED = -100  # target of a token without a loss
SEQUENCES = 24  # a rank's share has neither k nor k * k sequences


def make_gpt(seed: int) -> GPT:
    """Returns a tiny GPT in float64, with weights large enough that mistakes show."""
    draw = random.Random(f"gpt {seed}")
    torch.manual_seed(seed)
    model = GPT(GPTConfig(draw.randrange(9, 17), draw.randrange(4, 8), n_layer=1, n_head=2, hidden_dim=16))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.position_embedding.weight.requires_grad_(bool(seed % 3))
    return model.double()


def tokens(seed: int, config: GPTConfig) -> tuple[Tensor, Tensor]:
    """Returns 24 sequences and their targets, of which some are easy, and every other row has ignored ones."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randint(config.vocab_size, (2, SEQUENCES, config.block_size), generator=generator)
    y = torch.where(torch.arange(SEQUENCES)[:, None] < 10, x, y)
    ignored = torch.rand(y.shape, generator=generator) < torch.linspace(0, 0.9, SEQUENCES)[:, None]
    ignored[:, 0] = False  # a mean over no token would be nan
    return x, torch.where(ignored, IGNORED, y)


def token_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Returns the mean cross-entropy of the tokens that are not ignored."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def _accumulated(learner: ModuleType, seed: int, k: int, uncounted: tuple[int, int] | None = None) -> list[Any]:
    """Returns one rank's loss and gradients, and for each forward and backward: rows, sent, DDP's flag, sum of tokens.

    `uncounted` is a range of rows without counted tokens; the model then has old gradients, and is in eval mode.
    `sent` tells whether gradients were sent before. `others` are the collectives before, of a loss or a count.
    """
    model, single_process = make_gpt(seed), make_gpt(seed)
    torchs = patch.object(DistributedDataParallel, "__init__", _torchs_init)
    with torchs, patch.object(c10d.Reducer, "__init__", _torchs_reducer):
        ddp = DistributedDataParallel(model)
    for _ in range(2):  # the second forward pass rebuilds the buckets, and sends their order
        model.zero_grad()
        token_loss(ddp, *map(my_rows, tokens(seed + 1, model.config))).backward()
    ddp.train(uncounted is None)
    x, y = tokens(seed, model.config)
    if uncounted is None:
        model.zero_grad()
    else:
        y[slice(*uncounted)] = IGNORED
    rank_x, rank_y = my_rows(x).clone(), my_rows(y).clone()
    events: list[list[int]] = []
    others: list[int] = []
    small = SMALL * dist.get_world_size()  # an all-gather sends a loss and a count of each rank
    with CollectiveCounter() as counter:

        def forward(module: nn.Module, inputs: Any, output: Tensor) -> None:
            sizes = [record.bytes for record in counter.records]
            sent = max(sizes, default=0) > small
            others.append(sum(size <= small for size in sizes))
            events.append([len(inputs[0]), sent, bool(ddp.require_backward_grad_sync), int(inputs[0].sum())])
            output.register_hook(lambda gradient: events.append([0, sent, bool(ddp.require_backward_grad_sync), 0]))

        hook = model.register_forward_hook(forward)
        loss = learner.accumulate(ddp, rank_x, rank_y, k)
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
        [record.bytes for record in counter.records if record.bytes > small],
        [
            int((rank_x != my_rows(x)).sum() + (rank_y != my_rows(y)).sum()),
            int(ddp.training),
            sum(record.bytes <= small for record in counter.records),
        ],
        [bool(ddp.require_backward_grad_sync)],
        others,
    ]


SMALL = 16  # bytes of a loss and a count


def accumulated(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates two micro-batches or more on 2 to 4 ranks."""
    ranks, k = random.Random(seed).choice([(2, 3), (2, 2), (3, 4), (3, 2), (4, 3)])
    return _all_accumulated(in_world(_accumulated, ranks, learner, seed, k))


def over_old_gradients(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Accumulates over old gradients: one micro-batch on 3 or 4 ranks, of which the last has no counted token.

    Then two micro-batches on 2 ranks; the first one of rank 0 has no counted token.
    """
    ranks = draw_ranks(seed, 3, 4)
    last = in_world(_accumulated, ranks, learner, seed, 1, (SEQUENCES - SEQUENCES // ranks, SEQUENCES))
    return _all_accumulated(last, in_world(_accumulated, 2, learner, seed, 2, (0, SEQUENCES // 4)))


def _all_accumulated(*worlds: list[Any]) -> dict[str, Any]:
    every = [[[rank[place] for rank in world] for world in worlds] for place in range(10)]
    return {
        "ranks": [len(world) for world in worlds],
        "types": [kind for world in every[0] for kind in world],
        "losses": every[1],
        "whole losses": every[2],
        "gradients": [by_rank(world) for world in every[3]],
        "whole": [by_rank(world) for world in every[4]],
        "events": every[5],
        "bytes": every[6],
        "left": every[7],
        "syncs": [sync for world in every[8] for (sync,) in world],
        "others": every[9],
    }
