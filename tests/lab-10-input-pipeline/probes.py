"""Lab 10, probes: they call the learner's code on random inputs and return plain values.

A class of this file plays the loader and its workers in this process: each worker gets a copy of the stream, and
get_worker_info() returns the worker's number.
"""

import builtins
import copy
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset
from torch.utils.data._utils import worker as torch_worker

from rankzero.exercises.probes.untrusted_values import (
    array,
    dict_items,
    is_tensor,
    kind_text,
    plain_number,
    tuple_items,
    type_name,
)


def values(value: Any) -> Any:
    """Returns a tensor's numbers as an array, None for anything else."""
    return array(value) if is_tensor(value) else None


def ints(value: Any) -> list[int] | None:
    """Returns the numbers of a list of Python's ints, None for anything else."""
    return list(value) if type(value) is list and all(type(item) is int for item in value) else None


def failure(action: Callable[[], object]) -> str:
    """Returns the name of the exception's type that `action` raises; 'no error' if it raises none."""
    try:
        action()
    except NotImplementedError:
        raise
    except ValueError:  # or a class of the learner's that is one
        return "ValueError"
    except BaseException as error:
        return type_name(error)
    return "no error"


@contextmanager
def another_hash(learner: ModuleType) -> Iterator[None]:
    """Gives `hash` of texts other values in the learner's module, as another process has."""

    def salted(value: Any) -> int:
        texts = value if isinstance(value, tuple) else (value,)
        return builtins.hash(value) ^ (0x5BD1E995 * any(isinstance(part, str | bytes) for part in texts))

    vars(learner)["hash"] = salted
    try:
        yield
    finally:
        del vars(learner)["hash"]


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def next_numbers() -> list[float]:
    """Returns the next number of each of the three global generators."""
    return [random.random(), float(np.random.random()), torch.rand(1).item()]


# ------------------------------------------------------------------------------------------------------------ pictures
def some_pictures(draw: random.Random, count: int, channels: int) -> Tensor:
    """Returns random pictures uint8 [count, H, W, C], H and W different, each channel with another brightness."""
    height, width = draw.sample(range(5, 12), 2)
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    low = [draw.randrange(0, 120) for _ in range(channels)]
    parts = [
        torch.randint(start, start + draw.randrange(20, 130), (count, height, width), generator=generator)
        for start in low
    ]
    return torch.stack(parts, -1).to(torch.uint8)


def _prepare_arguments(draw: random.Random, count: int, channels: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    images = some_pictures(draw, count, channels)
    mean = torch.tensor([draw.uniform(0.2, 0.7) for _ in range(channels)])
    return images, mean, torch.tensor([draw.uniform(0.1, 0.4) for _ in range(channels)])


def _batch_answers(learner: ModuleType, arguments: tuple[Tensor, ...], *generator: torch.Generator) -> dict[str, Any]:
    before = [tensor.clone() for tensor in arguments]
    batch = learner.prepare(*arguments, *generator)
    same = all(map(torch.equal, before, arguments))
    strides = list(Tensor.stride(batch)) if is_tensor(batch) else []
    return {"form": kind_text(batch), "batch": values(batch), "strides": strides, "unchanged": same}


def prepared(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A validation batch of pictures of 2 or 4 channels, which are not contiguous."""
    draw = random.Random(seed)
    images, mean, std = _prepare_arguments(draw, draw.randrange(3, 6), draw.choice([2, 4]))
    seed_all(seed)  # an answer that draws from a global generator makes the same mistake in each process
    return _batch_answers(learner, (images.transpose(1, 2).contiguous().transpose(1, 2), mean, std))


def without_generator(learner: ModuleType, seed: int) -> dict[str, Any]:
    """How many numbers differ between two batches of the same pictures without a generator; the next random numbers."""
    images, mean, std = _prepare_arguments(random.Random(seed), 24)
    seed_all(seed)
    first, second = (values(learner.prepare(images, mean, std)) for _ in range(2))
    usable = first is not None and second is not None and first.shape == second.shape
    return {"differ": int((first != second).sum()) if usable else -1, "numbers": next_numbers()}


def shifted(learner: ModuleType, seed: int) -> dict[str, Any]:
    """A training batch of so many pictures that some move in each direction."""
    draw = random.Random(seed)
    arguments = _prepare_arguments(draw, draw.randrange(24, 30))
    seed_all(seed + 1)  # not the given generator's numbers
    return _batch_answers(learner, arguments, torch.Generator().manual_seed(seed % 2**31))


def numbers_drawn(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The next numbers of the given generator, and of the global ones, after two training batches."""
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    seed_all(seed)
    for _ in range(2):
        learner.prepare(*_prepare_arguments(draw, draw.randrange(3, 6)), generator)
    return {"own": torch.rand(2, generator=generator).tolist(), "global": next_numbers()}


# ------------------------------------------------------------------------------------------- ranks, workers and epochs
def _shares(learner: ModuleType, *case: int) -> tuple[list[list[list[int]]], list[str]]:
    """Returns the samples of each worker of each rank, and the forms of what came back."""
    size, seed, epoch, ranks, workers = case
    shares: list[list[list[int]]] = []
    forms: set[str] = set()
    for rank in range(ranks):
        shares.append([])
        for worker in range(workers):
            share = learner.epoch_indices(size, seed, epoch, rank, ranks, worker, workers)
            forms.add(_form(share))
            shares[-1].append(_indices(share))
    return shares, sorted(forms)


def _form(share: Any) -> str:
    """Returns 'int64 [n]' for a tensor of that form of whatever length, and else what came back."""
    right = is_tensor(share) and share.dtype == torch.int64 and Tensor.dim(share) == 1
    return "int64 [n]" if right else kind_text(share)


def _indices(share: Any) -> list[int]:
    if not is_tensor(share):
        share = torch.tensor(share)  # also of a list, so that one mistake is named at a time
    return [int(index) for index in Tensor.tolist(share.flatten())]


def _times(samples: list[int], size: int) -> list[int]:
    """Returns how often each of `size` samples comes, and last how many are none of them."""
    counts = Counter(samples)
    times = [counts[sample] for sample in range(size)]
    return [*times, len(samples) - sum(times)]


def _cases(draw: random.Random) -> list[list[int]]:
    """Returns sizes, seeds, epochs, ranks and workers.

    In the first case, 2 or more samples are left over by the ranks, and 2 or more of each rank's share by its workers:
    whoever gets all of them has at least 2 too many. In the last case there are more workers than samples.
    """
    ranks, workers = draw.randrange(3, 5), draw.randrange(4, 6)
    left_over = ranks * draw.randrange(2, workers - 1) + draw.randrange(2, ranks)
    sizes = [(draw.randrange(3, 9) * ranks * workers + left_over, ranks, workers)]
    for _ in range(2):
        ranks, workers = draw.randrange(2, 5), draw.randrange(2, 6)
        sizes.append((draw.randrange(3 * ranks * workers, 9 * ranks * workers) | 1, ranks, workers))
    sizes.append((draw.randrange(1, 6), 3, draw.randrange(2, 5)))
    return [[size, draw.randrange(100), draw.randrange(10), *rest] for size, *rest in sizes]


def divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Divides samples that ranks and workers don't divide: how often each comes, and the sizes of the shares."""
    cases = _cases(random.Random(seed))
    divisions = [_shares(learner, *case) for case in cases]
    every = [[index for rank in ranks for share in rank for index in share] for ranks, _ in divisions]
    return {
        "cases": cases,
        "forms": sorted({form for _, forms in divisions for form in forms}),
        "times": [_times(samples, case[0]) for samples, case in zip(every, cases, strict=True)],
    }


def share_sizes(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The sizes of all shares, ascending: of the ranks, and within each rank."""
    cases = _cases(random.Random(seed))
    sizes = []
    for case in cases:
        counts = [[len(share) for share in rank] for rank in _shares(learner, *case)[0]]
        sizes.append([sorted(map(sum, counts)), sorted(sorted(rank) for rank in counts)])
    return {"cases": cases, "sizes": sizes}


RADICES = 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 17, 20, 24, 31, 32, 48, 64, 100, 128, 256, 1000, 1024, 10_000, 65_536, 10**6


def orders(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Orders of several seeds and epochs; how many differ, repeat, and are kept by the shares; how random they are."""
    draw = random.Random(seed)
    size, start, epoch = draw.randrange(40, 60), draw.randrange(1, 50), draw.randrange(1, 50)
    count = draw.randrange(66, 80)  # of epochs in a row

    def order(*case: int) -> list[int]:
        return _shares(learner, size, *case, 1, 1)[0][0][0]

    epochs = [order(start, epoch + number) for number in range(count)]
    pairs = {(start, epoch), (start + 1, epoch), (start, epoch + 1), (epoch + 60, start), (start, epoch + 60)}
    for radix in RADICES:  # those that seed * radix + epoch, or seed + radix * epoch, gives one order
        pairs |= {(start, epoch + radix % 1025), (start + radix, epoch)}  # an answer may draw the earlier epochs first
    a, b, c = (draw.randrange(1, 10) for _ in range(3))
    pairs |= {(a, 10 * b + c), (10 * a + b, c)}  # the same digits in a row
    several = [order(*pair) for pair in sorted(pairs)]
    seed_all(draw.randrange(1000))  # has no influence
    with another_hash(learner):
        again = [order(start, epoch + number) for number in range(count)]
    strides = [len({(b - a) % size for a, b in pairwise(order)}) for order in epochs[:6]]
    first, second = (set(_shares(learner, size, start, epoch + later, 2, 1)[0][0][0]) for later in (0, 1))
    ranks = _shares(learner, size, start, epoch, draw.randrange(2, 4), draw.randrange(2, 5))[0]
    places = {sample: place for place, sample in enumerate(epochs[0])}
    kept = [[places.get(sample, -1) for sample in share] for rank in ranks for share in rank]
    return {
        "size": size,
        "epochs": len(set(map(tuple, epochs))),
        "pairs": len(set(map(tuple, several))),
        "repeats": sum(one == other for one, other in zip(epochs, again, strict=True)),
        "kept": sum(share == sorted(share) for share in kept),
        "regular": sum(count < size / 4 for count in strides),  # a random order has about 0.63 * size strides
        "another size": sorted(_shares(learner, size + 5, start, epoch, 1, 1)[0][0][0]) == list(range(size + 5)),
        "same samples": first == second,
    }


def generators_left(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The next global random numbers after orders were drawn."""
    draw = random.Random(seed)
    seed_all(seed)
    for epoch in range(2):
        learner.epoch_indices(draw.randrange(20, 50), draw.randrange(100), epoch, 1, 2, 0, 2)
    return {"numbers": next_numbers()}


def _numbers_of(learner: ModuleType, case: tuple[int, ...]) -> list[float]:
    learner.seed_worker(*case)
    return next_numbers()


def _seeds(draw: random.Random) -> list[tuple[int, ...]]:
    """Returns fours that a careless sum or product of the four gives one seed."""
    seed, epoch, rank, worker = (draw.randrange(3, 20) for _ in range(4))
    cases: set[tuple[int, ...]] = {
        (seed, epoch, rank, worker),
        (rank, seed, worker, epoch),
        (worker, rank, epoch, seed),
    }
    for place in range(3):
        for radix in (1, *RADICES):
            case = [seed, epoch, rank, worker]
            case[place] += 1
            cases.add(tuple(case))
            case = [seed, epoch, rank, worker]
            case[place + 1] += radix
            cases.add(tuple(case))
        first, middle, last = (draw.randrange(1, 10) for _ in range(3))  # fours with the same digits in a row
        for pair in ((first, 10 * middle + last), (10 * first + middle, last)):
            cases.add((*(seed, epoch, rank, worker)[:place], *pair, *(seed, epoch, rank, worker)[place + 2 :]))
    return sorted(cases)


def seeds_repeat(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Seeds several workers twice, two of them with large values: how many start the same numbers again."""
    draw = random.Random(seed)
    cases = [tuple(draw.randrange(50) for _ in range(4)) for _ in range(draw.randrange(5, 60))]
    repeats = [0, 0, 0]
    for case in [*cases, *_large(draw)]:
        first = _numbers_of(learner, case)
        seed_all(draw.randrange(1000))
        random.random()
        with another_hash(learner):
            again = _numbers_of(learner, case)
        for place, (one, other) in enumerate(zip(first, again, strict=True)):
            repeats[place] += one == other
    return {"repeats": repeats, "count": len(cases)}


def one_differs(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Changes one of the four numbers at a time: in how many cases each generator starts other numbers."""
    draw, changed = random.Random(seed), [[0, 0, 0] for _ in range(4)]
    count = draw.randrange(5, 60)
    for _ in range(count):
        case = [draw.randrange(50) for _ in range(4)]
        numbers = _numbers_of(learner, tuple(case))
        for place in range(4):
            other = [*case[:place], case[place] + 1, *case[place + 1 :]]
            for generator, number in enumerate(_numbers_of(learner, tuple(other))):
                changed[place][generator] += number != numbers[generator]
    return {"changed": changed, "count": count}


def several_differ(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Seeds many workers whose sums are alike: how many different numbers each generator starts with."""
    draw = random.Random(seed)
    cases = _seeds(draw)
    cases = draw.sample(cases, len(cases) - draw.randrange(3))
    numbers = [_numbers_of(learner, case) for case in cases]
    pairs = [_first_pair(cases, [row[place] for row in numbers]) for place in range(3)]
    starts = draw.randrange(2, 40)  # and, from equal sums alone, as many
    total = draw.randrange(100, 200)
    sums = [(0, number, 3, total - number) for number in range(starts)]
    equal_sums = [_numbers_of(learner, case) for case in sums]
    return {
        "different": [len(set(generator)) for generator in zip(*numbers, strict=True)],
        "of sums": [len(set(generator)) for generator in zip(*equal_sums, strict=True)],
        "pairs": pairs,
        "weighted": _weighted_pair(learner, cases[0]),
        "lost": _high_bits_lost(learner, _large(draw)),
    }


def _large(draw: random.Random) -> list[tuple[int, ...]]:
    return [(2 ** draw.randrange(33, 70) + draw.randrange(9), 1, 0, 0), (0, 0, 0, 2**32 + draw.randrange(9))]


def _high_bits_lost(learner: ModuleType, cases: list[tuple[int, ...]]) -> list[int]:
    """Returns for each generator how many of the cases start the numbers of their lowest 32 bits; -1 if one fails."""
    lost = [0, 0, 0]
    for case in cases:
        if failure(lambda: learner.seed_worker(*case)) != "no error":  # noqa: B023
            return [-1, -1, -1]
        low = tuple(number % 2**32 for number in case)
        for place, (one, other) in enumerate(zip(_numbers_of(learner, case), _numbers_of(learner, low), strict=True)):
            lost[place] += one == other
    return lost


def _weighted_pair(learner: ModuleType, case: tuple[int, ...]) -> list[list[int]]:
    """Returns two fours with one seed of torch if that is a weighted sum of the four numbers; none otherwise."""

    def seed_of(*numbers: int) -> int:
        learner.seed_worker(*numbers)
        return torch.initial_seed()

    def moved(place: int, by: int) -> tuple[int, ...]:
        return (*case[:place], case[place] + by, *case[place + 1 :])

    weights = [seed_of(*moved(place, 1)) - seed_of(*case) for place in range(4)]
    for left in range(4):
        for right in range(left):
            if all(0 < weights[place] < 2**40 for place in (left, right)):
                pair = moved(left, weights[right]), moved(right, weights[left])
                if seed_of(*pair[0]) == seed_of(*pair[1]):
                    return [list(numbers) for numbers in pair]
    return []


def _first_pair(cases: list[tuple[int, ...]], numbers: list[float]) -> list[list[int]]:
    """Returns the first two cases with one number; none if all numbers differ."""
    seen: dict[float, tuple[int, ...]] = {}
    for case, number in zip(cases, numbers, strict=True):
        if number in seen:
            return [list(seen[number]), list(case)]
        seen[number] = case
    return []


# ---------------------------------------------------------------------------------------------------------- TextStream
@contextmanager
def worker_info(worker: int, workers: int, dataset: Any) -> Iterator[None]:
    """Makes get_worker_info() answer as in a worker; with `workers` 0, as in the training process."""
    before = torch_worker._worker_info
    info = torch_worker.WorkerInfo(id=worker, num_workers=workers, seed=7 + worker, dataset=dataset)
    torch_worker._worker_info = info if workers else None
    try:
        yield
    finally:
        torch_worker._worker_info = before


class Text:
    """Random tokens, all different, so that a window is known by its first."""

    def __init__(self, draw: random.Random, windows: int, left_over: int | None = None) -> None:
        """`left_over` tokens follow the last target; below 0, they are counted from the length of a window."""
        self.length, self.windows = draw.randrange(2, 7), windows
        count = (
            windows * self.length + 1 + (draw.randrange(self.length) if left_over is None else left_over % self.length)
        )
        self.tokens = torch.tensor(draw.sample(range(1000, 1000 + 3 * count), count))
        self.number = {int(self.tokens[window * self.length]): window for window in range(windows)}
        self.seed = draw.randrange(100)

    def stream(self, learner: ModuleType, rank: int, ranks: int, workers: int) -> Any:
        return learner.TextStream(self.tokens, self.length, self.seed, rank, ranks, workers)

    def window(self, sample: Any) -> int:
        """Returns the number of the sample's window, -1 if it is none of the text's."""
        x: Any = (dict_items(sample) or {}).get("x")
        return self.number.get(int(Tensor.tolist(x.flatten())[0]), -1) if is_tensor(x) and Tensor.numel(x) else -1


class Loader:
    """Reads a stream as a DataLoader does: copies for the workers, their batches in turn, a few of them ahead."""

    def __init__(self, stream: Any, workers: int, size: int) -> None:
        self.stream, self.workers, self.size = stream, workers, size

    def __iter__(self) -> Iterator[list[Any]]:
        copies = [copy.deepcopy(self.stream) for _ in range(self.workers)] or [self.stream]
        readers = [self._batches(dataset, number) for number, dataset in enumerate(copies)]
        waiting: list[list[list[Any]]] = [[] for _ in readers]
        while readers:
            for number, reader in enumerate(readers):
                while len(waiting[number]) < (3 if self.workers else 1):
                    batch = next(reader, None)
                    if batch is None:
                        break
                    waiting[number].append(batch)
            if not any(waiting):
                return
            for store in waiting:
                if store:
                    yield store.pop(0)

    def _batches(self, dataset: Any, number: int) -> Iterator[list[Any]]:
        with worker_info(number, self.workers, dataset):
            samples = iter(dataset)
        while True:
            batch: list[Any] = []
            with worker_info(number, self.workers, dataset):
                for _ in range(self.size):
                    sample = next(samples, None)
                    if sample is None:
                        break
                    batch.append(sample)
            if not batch:
                return
            yield batch


def _collated(batch: list[Any], name: str) -> Any:
    return torch.stack([sample[name] for sample in batch])


def _read(
    text: Text, stream: Any, workers: int, size: int, batches: int | None = None, *, advance: bool = True
) -> list[int]:
    """Trains on one epoch, or on so many batches of it; returns the windows."""
    windows: list[int] = []
    for count, batch in enumerate(Loader(stream, workers, size), start=1):
        windows += [text.window(sample) for sample in batch]
        if advance:
            stream.advance(_collated(batch, "worker"))
        if len(windows) > 3 * text.windows or count == batches:
            break
    return windows


def stream_windows(learner: ModuleType, seed: int) -> dict[str, Any]:
    """All samples of one rank without workers, in the order of the text: x, y and worker; of two texts.

    No token is left over after the last target of the first text, and the length of the second is a multiple of the
    window's: a number of windows that is wrong by one is wrong for one of the two.
    """
    draw = random.Random(seed)
    answers: dict[str, Any] = {"windows": [], "forms": [], "x": [], "y": [], "iterable": 0}
    for left_over in (0, -1):
        text = Text(draw, draw.randrange(5, 15), left_over)
        stream = text.stream(learner, 0, 1, 0)
        answers["iterable"] += isinstance(stream, IterableDataset)
        with worker_info(0, 0, None):
            samples = list(stream)[: 2 * text.windows]
        found = [dict_items(sample) or {} for sample in sorted(samples, key=text.window)]
        answers["windows"].append(_times([text.window(sample) for sample in samples], text.windows))
        forms = {f"{name}: {kind_text(sample.get(name))}" for sample in found for name in ("x", "y", "worker")}
        answers["forms"].append(sorted(forms))
        for name in ("x", "y"):
            rows = [Tensor.tolist(sample[name]) if is_tensor(sample.get(name)) else None for sample in found]
            answers[name].append(rows)
    return answers


def stream_divided(learner: ModuleType, seed: int) -> dict[str, Any]:
    """One epoch of several ranks and workers: how often each window comes, and each worker's number of windows."""
    draw = random.Random(seed)
    ranks, workers = draw.randrange(2, 5), draw.randrange(2, 5)
    text = Text(draw, ranks * workers * draw.randrange(2, 5) + draw.randrange(1, ranks * workers))
    windows, sizes, numbers, ordered = [], [], [], 0
    for rank in range(ranks):
        counts = []
        for worker in range(workers):
            stream = copy.deepcopy(text.stream(learner, rank, ranks, workers))
            with worker_info(worker, workers, stream):
                samples = list(stream)[: 2 * text.windows]
            read = [text.window(sample) for sample in samples]
            windows += read
            ordered += read == _indices(learner.epoch_indices(text.windows, text.seed, 0, rank, ranks, worker, workers))
            counts.append(len(samples))
            numbers += [plain_number(sample["worker"]) == worker for sample in samples]
        sizes.append(sorted(counts))
    return {
        "case": [ranks, workers, text.windows],
        "times": _times(windows, text.windows),
        "sizes": sorted(sizes),
        "numbers": sum(numbers),
        "ordered": ordered,
    }


def stream_epochs(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Three epochs in a row on two ranks, with and without workers; the last is interrupted and resumed.

    The ranks have shares of different sizes. Then a run trains on all windows while it iterates over the first epoch.
    """
    draw = random.Random(seed)
    times, different = [], []
    for workers, size in ((0, 1), (draw.randrange(2, 4), 2)):
        text = Text(draw, 2 * draw.randrange(15, 25) + 1)
        streams = [text.stream(learner, rank, 2, workers) for rank in range(2)]
        epochs = [[_read(text, stream, workers, size) for stream in streams] for _ in range(2)]
        epochs.append([])
        for rank, stream in enumerate(streams):
            before = _read(text, stream, workers, size, draw.randrange(1, 4))
            resumed = text.stream(learner, rank, 2, workers)
            resumed.load_state_dict(_saved(stream))
            epochs[-1].append(before + _read(text, resumed, workers, size))
        times.append([_times([*epoch[0], *epoch[1]], text.windows) for epoch in epochs])
        different.append(len({str(epoch) for epoch in epochs}))
    stream = text.stream(learner, 0, 1, 0)
    with worker_info(0, 0, None):
        iteration = iter(stream)
        first = [next(iteration)]
        stream.advance(torch.zeros(text.windows, dtype=torch.int64))  # the next epoch begins
        begun = [text.window(sample) for sample in first + list(itertools.islice(iteration, 2 * text.windows))]
    return {"times": times, "different": different, "begun": _times(begun, text.windows)}


def stream_resumed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Stops each of several ranks at random places, resumes from their states, and reads the epoch to its end."""
    draw = random.Random(seed)
    cases, times, orders = [], [], []
    for workers, turns in ((draw.randrange(2, 5), 1), (0, draw.randrange(2)), (draw.randrange(1, 5), 0)):
        ranks, size = draw.randrange(1, 4), draw.randrange(1, 5)
        batches = workers * turns + draw.randrange(1, max(workers, 2))  # some workers are a batch ahead
        text = Text(draw, ranks * (draw.randrange(4, 8) + size * batches) + draw.randrange(ranks))
        cases.append([ranks, workers, size, batches])
        windows, same = [], []
        for rank in range(ranks):
            whole = text.stream(learner, rank, ranks, workers)
            stopped = text.stream(learner, rank, ranks, workers)
            uninterrupted = _read(text, whole, workers, size)
            before = _read(text, stopped, workers, size, batches)
            resumed = text.stream(learner, rank, ranks, workers)
            resumed.load_state_dict(_saved(stopped))
            after = _read(text, resumed, workers, size)
            windows += before + after
            same.append(before == uninterrupted[: len(before)] and sorted(before + after) == sorted(uninterrupted))
        times.append(_times(windows, text.windows))
        orders.append(same)
    return {"cases": cases, "times": times, "same": orders}


def _saved(stream: Any) -> Any:
    """Returns the state after a way through a file of plain values, or a copy of a state that is none."""
    state = stream.state_dict()
    try:
        return json.loads(json.dumps(state))
    except TypeError:
        return copy.deepcopy(state)


def _state_form(state: Any, workers: int) -> str:
    """Returns what is wrong with a state: its values must be ints, and lists of at most one int per worker."""
    entries = dict_items(state)
    if entries is None:
        return f"is {kind_text(state)}"
    for name, value in entries.items():
        if type(value) is list and any(type(item) is not int for item in value):
            return f"has under {name!r} a list with other values than ints"
        if type(value) is list and len(value) > workers:
            return f"has under {name!r} more than one number per worker"
        if type(value) not in (int, list):
            return f"has under {name!r} a value of type {type_name(value)}"
    return "ints and lists of ints"


def stream_state(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The state: its form, and whether it changes when the run goes on or is loaded."""
    draw = random.Random(seed)
    workers, changed, read, forms = draw.randrange(2, 6), [0, 0], [], []
    size, batches = draw.randrange(1, 6), draw.randrange(7, 12)
    for windows in (300, 1000):
        text = Text(draw, windows)
        stream = text.stream(learner, 0, 1, workers)
        read.append(len(_read(text, stream, workers, size, batches)))
        state = stream.state_dict()
        forms.append(_state_form(state, workers))
        if forms[-1] != "ints and lists of ints":
            break
        before = copy.deepcopy(state)
        other = text.stream(learner, 0, 1, workers)
        other.load_state_dict(copy.deepcopy(state))
        for number, reader in enumerate((stream, other)):
            if reader is other:
                state = copy.deepcopy(before)
                other.load_state_dict(state)
            read.append(len(_read(text, reader, workers, size, batches)))
            changed[number] += state != before
    return {"form": forms[-1], "changed": changed, "read": read}


def stream_refuses(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Loads states of other numbers of ranks and workers; then reads on where the stream was."""
    draw = random.Random(seed)
    ranks = draw.randrange(3, 5)
    workers = draw.choice([number for number in range(2, 6) if number != ranks])
    text = Text(draw, draw.randrange(60, 200))
    stream = text.stream(learner, 1, ranks, workers)
    whole = _read(text, text.stream(learner, 1, ranks, workers), workers, 2)
    before = _read(text, stream, workers, 2, draw.randrange(2) * workers + draw.randrange(1, workers))
    ended = []
    others = (ranks, workers + 1), (ranks, workers - 1), (ranks + 1, workers), (ranks - 1, workers), (workers, ranks)
    for other_ranks, other_workers in others:
        other = text.stream(learner, 1, other_ranks, other_workers)
        _read(text, other, other_workers, 2)  # the state is of another epoch, too
        _read(text, other, other_workers, 2, 1)
        state = _saved(other)
        ended.append(failure(lambda: stream.load_state_dict(state)))  # noqa: B023
    after = _read(text, stream, workers, 2)
    for counts in ((0, 1), (1, 0)):
        source, target = (text.stream(learner, 0, 1, count) for count in counts)
        _read(text, source, counts[0], 2, 2)
        ended.append(failure(lambda: target.load_state_dict(_saved(source))))  # noqa: B023
    return {"ended": ended, "read": [len(before + after), len(set(before + after) & set(whole))]}


# --------------------------------------------------------------------------------------------------------------- texts
def _rows(learner: ModuleType, documents: list[list[int]], length: int, eos: int) -> dict[str, Any]:
    before = copy.deepcopy(documents)
    returned = learner.pack_documents(documents, length, eos)
    packed_kind = "Packed" if isinstance(returned, learner.Packed) else kind_text(returned)
    parts = tuple_items(returned, 4) or (None,) * 4
    names = "tokens", "targets", "documents", "positions"
    forms = {f"form of {name}": kind_text(part) for name, part in zip(names, parts, strict=True)}
    arrays = dict(zip(names, map(values, parts), strict=True))
    return {"kind": packed_kind, "unchanged": documents == before, **forms, **arrays}


def _documents(draw: random.Random, count: int, lengths: tuple[int, int]) -> list[list[int]]:
    large = draw.choice([50, 100_000])
    return [[draw.randrange(100, 100 + large) for _ in range(draw.randrange(*lengths))] for _ in range(count)]


def packed(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Packs short documents that end where rows end; the last row has padding."""
    draw = random.Random(seed)
    length, eos = draw.randrange(8, 14), draw.randrange(60, 90)
    documents = []
    for _ in range(draw.randrange(5, 8)):
        first = draw.randrange(2, length - 3)
        documents += _documents(draw, 1, (first, first + 1)) + _documents(
            draw, 1, (length - first - 2, length - first - 1)
        )
    documents += _documents(draw, 1, (2, length - 3))
    return _rows(learner, documents, length, eos)


def packed_long(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Packs documents that go over several rows."""
    draw = random.Random(seed)
    length = draw.randrange(4, 7)
    documents = _documents(draw, draw.randrange(3, 6), (length, 4 * length))
    if sum(len(document) + 1 for document in documents) % length == 0:
        documents[-1].append(draw.randrange(100, 150))
    return _rows(learner, documents, length, draw.randrange(60, 90))


def packed_edges(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Packs documents that are empty or contain eos, that fill their rows to the last token, rows of 1, and none."""
    draw = random.Random(seed)
    eos = draw.randrange(60, 90)
    odd = [[], *_documents(draw, draw.randrange(4, 7), (3, 8))]
    odd[1][0], odd[2][-1] = eos, eos
    odd.insert(draw.randrange(1, len(odd)), [])
    tokens = sum(len(document) + 1 for document in odd)
    odd_length = draw.choice([length for length in range(6, 10) if tokens % length])  # the last row has padding
    length = draw.randrange(5, 9)
    full = _documents(draw, draw.randrange(3, 6), (2, 9))
    total = sum(len(document) + 1 for document in full)
    full += _documents(draw, 1, (2 * length - total % length - 1, 2 * length - total % length))
    cases = {"odd": (odd, odd_length, eos), "full": (full, length, eos), "none": ([], length, eos)}
    cases["one"] = _documents(draw, 1, (2, 4)), 1, 0
    return {
        f"{case} {name}": value
        for case, arguments in cases.items()
        for name, value in _rows(learner, *arguments).items()
    }


def mask(learner: ModuleType, seed: int) -> dict[str, Any]:
    """The mask of rows of several documents, some with padding at their end, a softmax with it, and that of no row."""
    draw = random.Random(seed)
    rows: list[list[int]] = []
    length, number = draw.randrange(7, 12), 0
    for padding in (False, True, True):
        row: list[int] = []
        while len(row) < length:
            row += [number] * draw.randrange(1 if rows or row else 2, 5)
            number += draw.randrange(1, 3)
        start = draw.randrange(2, length - 2) if padding else length
        rows.append(row[:start] + [-1] * (length - start))
    documents = torch.tensor(rows)
    before = documents.clone()
    returned = learner.document_mask(documents)
    allowed, shape = values(returned), (len(rows), 1, length, length)
    weights = None
    if allowed is not None and allowed.shape == shape:
        weights = torch.zeros(shape).masked_fill(torch.from_numpy(allowed) == 0, float("-inf")).softmax(-1)
    return {
        "form": kind_text(returned),
        "none": kind_text(learner.document_mask(documents[:0])),
        "mask": allowed,
        "documents": values(before),
        "unchanged": bool(torch.equal(documents, before)),
        "nan": -1 if weights is None else int(weights.isnan().any(-1).sum()),
    }


# -------------------------------------------------------------------------------------------------------------- tokens
def _tokens(draw: random.Random, count: int) -> list[int]:
    """Returns tokens with many runs of equal ones."""
    kinds = draw.sample(range(300), 3)
    tokens: list[int] = []
    while len(tokens) < count:
        tokens += [draw.choice(kinds)] * draw.choice([1, 1, 2, 3, 4, 5])
    return tokens


def _is_pair(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2 and all(type(item) is int for item in value)


def pairs_merged(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Merges a pair in several lists: of two different tokens, and of a token with itself."""
    draw = random.Random(seed)
    cases = []
    for count in (8, 12, 40, 40):
        tokens = _tokens(draw, draw.randrange(count - 3, count + 4))
        first = draw.choice(tokens)
        pair = (first, first) if count % 3 else next(pairwise(tokens))
        cases.append((tokens, pair, draw.randrange(300, 400)))
    end = draw.randrange(300)
    cases += [([end + 1, end], (end, end + 2), 400), ([end], (end, end), 400), ([], (end, end), 400)]
    digit = draw.randrange(1, 10)  # as text, "7 7" is in "77 7"
    cases += [([11 * digit, digit, digit, digit], (digit, digit), 400), ([1, 2, 2, 1, 2], (1, 2), 1)]
    before = copy.deepcopy(cases)
    returned = [learner.merge_pair(*case) for case in cases]
    return {
        "cases": [[tokens, list(pair), new] for tokens, pair, new in before],
        "merged": list(map(ints, returned)),
        "new": not any(value is case[0] for value, case in zip(returned, cases, strict=True)),
        "unchanged": cases == before,
    }


WORDS = "low lower lowest new newer wide widest The then There abab aaaa Über naïve tree été 猫 🐈"
ACCENTS = ["été", "née", "allée", "fée", "thé", "pré"]  # é is the bytes 195 and 169, most often a pair


def _text(draw: random.Random, words: list[str], count: int) -> str:
    some = draw.sample(words, 6)
    return "".join(draw.choice(some) + draw.choice([" ", " ", "\n", ", "]) for _ in range(count))


def _merges(value: Any) -> list[list[int]] | None:
    """Returns the pairs of a list as lists, None for anything but a list of pairs."""
    return [list(pair) for pair in value] if type(value) is list and all(map(_is_pair, value)) else None


def _merges_before_a_tie(text: str) -> int:
    """Returns how many merges can be learned from the text before two pairs are equally frequent."""
    symbols, number = [bytes([byte]) for byte in text.encode()], 0
    while len(counts := Counter(pairwise(symbols)).most_common(2)) == 2 and counts[0][1] > counts[1][1]:
        (left, right), place = counts[0][0], 0
        while place < len(symbols) - 1:
            if symbols[place] == left and symbols[place + 1] == right:
                symbols[place : place + 2] = [left + right]
            place += 1
        number += 1
    return number


def bpe_learned(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Learns merges of texts in which one pair is the most frequent, merge after merge."""
    draw = random.Random(seed)
    texts: list[str] = []
    counts = []
    while len(texts) < 3:
        text = _text(draw, ACCENTS if len(texts) == 1 else WORDS.split(), draw.randrange(60, 120))
        if (count := _merges_before_a_tie(text)) > 2 + len(texts):
            texts.append(text)
            counts.append(count)
    learned = [_merges(learner.train_bpe(text, count)) for text, count in zip(texts, counts, strict=True)]
    return {"texts": [text[:40] for text in texts], "learned": learned}


def bpe_ties(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Learns merges of texts in which several pairs occur equally often, or in which no pair occurs twice any more."""
    draw = random.Random(seed)
    texts, counts = [], []
    for _ in range(3):
        letters = draw.sample("abcdefghijklmnop", 8)
        pieces = ["".join(letters[place : place + 2]) for place in (0, 2, 4, 6)] * 2
        draw.shuffle(pieces)
        texts.append("".join(f"{piece}{mark}" for piece, mark in zip(pieces, "01234567", strict=True)))
        counts.append(3)
    a, b, c = sorted(draw.sample("abcdefghijklmnop", 3))
    texts += [f"{a}{c}0{a}{b}1{a}{c}2{a}{b}3", f"{c * 4}0{a}{b}1{a}{b}"]  # the first token ties; overlap decides
    counts += [2, 1]
    some = "".join(draw.sample("abcdefghijklmnop", 5))
    texts += [some * 2, some[:3] * 3 + some, some, some[:1], "", f"\n\n{some}\n\n", some.upper() + some, some * 3]
    counts += [50, 50, 50, 50, 50, 50, 50, 0]
    learned = [_merges(learner.train_bpe(text, count)) for text, count in zip(texts, counts, strict=True)]
    return {"texts": texts, "learned": learned}


def _some_merges(draw: random.Random) -> list[tuple[int, int]]:
    """Returns merges over a, b and the space, most of which compete for the same letters: their order decides."""
    letters = list(b"ab ")
    merges = draw.sample([(left, right) for left in letters for right in letters], 6)
    for number in range(3):
        pair = draw.choice([(256 + number, draw.choice(letters)), (draw.choice(letters), 256 + number)])
        merges.insert(draw.randrange(number + 4 + number, len(merges) + 1), pair)
    return merges


def encoded(learner: ModuleType, seed: int) -> dict[str, Any]:
    """Encodes letters with merges that compete for them, characters of two to four bytes, and nothing."""
    draw = random.Random(seed)
    merges = [_some_merges(draw) for _ in range(4)]
    texts = ["".join(draw.choices("ab ", k=draw.randrange(20, 60))) for _ in merges]
    merges += [[(195, 169), (240, 159), (97, 98), (230, 151), (259, 165)], [(97, 98)], []]
    odd = "".join(draw.choices("abABÉé日🐈\n ñ", k=draw.randrange(20, 40)))
    texts += [f" É日e\u0301{odd}\n ", "", "ab"]
    before = copy.deepcopy(merges)
    tokens = [ints(learner.encode(text, pairs)) for text, pairs in zip(texts, merges, strict=True)]
    return {
        "texts": texts,
        "merges": [[list(pair) for pair in pairs] for pairs in before],
        "tokens": tokens,
        "unchanged": merges == before,
    }
