# mypy: disable-error-code="var-annotated, return-value, unused-ignore"
"""Claims of handbook/input-pipeline.md: which rank and worker reads which sample, random streams, and the position."""

import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, Sampler, get_worker_info

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim

RANKS, WORKERS, SAMPLES = 2, 2, 12
# By way of dividing: whether the rank counts, and whether the worker counts.
WAYS = {
    "not divided": (False, False),
    "by worker only": (False, True),
    "by rank only": (True, False),
    "by rank and worker": (True, True),
}


class Stream(IterableDataset[Tensor]):
    """The numbers of 12 samples, of which each worker yields its share; a sample carries the number of its worker."""

    def __init__(self, rank: int, way: str) -> None:
        self.rank, self.way = rank, way

    def __iter__(self) -> Iterator[Tensor]:
        info = get_worker_info()
        assert info is not None
        by_rank, by_worker = WAYS[self.way]
        shares, share = 1, 0
        if by_rank:
            shares, share = RANKS, self.rank
        if by_worker:
            shares, share = shares * WORKERS, share * WORKERS + info.id
        for sample in range(share, SAMPLES, shares):
            yield torch.tensor([info.id, sample])


def read_by(rank: int, way: str) -> list[list[int]]:
    """Returns worker and sample of all that a rank's loader yields."""
    loader = DataLoader(Stream(rank, way), batch_size=None, num_workers=WORKERS, multiprocessing_context="fork")
    return [pair.tolist() for pair in loader]


@claim(
    "input-samples-per-rank-and-worker",
    "On 2 ranks with 2 workers each, an iterable data set yields each of its 12 samples {expected[not divided]} times "
    "if nobody divides it, {expected[by worker only]} times if only ranks or only workers do, and once if both do.",
    expected={"not divided": 4, "by worker only": 2, "by rank only": 2, "by rank and worker": 1},
    unit="times per sample",
)
def samples_per_rank_and_worker() -> Charted:
    """Runs the loaders of both ranks with real workers and counts how often each sample comes."""
    lines: dict[str, list[Point]] = {}
    value = {}
    for way in WAYS:
        seen: Counter[int] = Counter()
        for rank in range(RANKS):
            for worker, sample in read_by(rank, way):
                seen[sample] += 1
                lines.setdefault(f"{way}: rank {rank}, worker {worker}", []).append((float(sample), 1, 1, 1))
        value[way] = sum(seen.values()) / SAMPLES
        assert set(seen.values()) == {int(value[way])}, "every sample comes equally often"
    return Charted(value, Chart("Samples by rank and worker", "sample", "times", lines))


@claim(
    "input-sampler-pads",
    "Of 10 samples on 4 ranks a DistributedSampler gives {expected[given]}, so {expected[given twice]} come twice; "
    "with drop_last it gives {expected[given, drop_last]}, and {expected[left out, drop_last]} are left out.",
    expected={"given": 12, "given twice": 2, "given, drop_last": 8, "left out, drop_last": 2},
    unit="samples",
)
def sampler_pads() -> dict[str, float]:
    """Lists the indices of all ranks, with and without drop_last, and counts them."""
    counts = {}
    for name, drop_last in (("given", False), ("given, drop_last", True)):
        given = Counter(
            index
            for rank in range(4)
            for index in DistributedSampler(range(10), 4, rank, shuffle=True, drop_last=drop_last)  # type: ignore[arg-type]
        )
        counts[name] = given.total()
        if drop_last:
            counts["left out, drop_last"] = 10 - len(given)
        else:
            counts["given twice"] = sum(times == 2 for times in given.values())
    return counts


@claim(
    "input-set-epoch",
    "Of 1,000 positions of a DistributedSampler's order, {expected[without set_epoch]} change from epoch 0 to epoch 1 "
    "without set_epoch; with it more than 900 do, and setting epoch 0 again gives the first order again.",
    expected={"without set_epoch": 0, "with: more than 900": 1, "epoch 0 again": 0},
    unit="positions that change",
)
def set_epoch() -> dict[str, float]:
    """Lists the indices of one rank in two epochs and compares them."""
    sampler = DistributedSampler(range(1000), 1, 0, shuffle=True)  # type: ignore[arg-type,var-annotated]
    first, second = list(sampler), list(sampler)
    sampler.set_epoch(1)
    other = list(sampler)
    sampler.set_epoch(0)
    again = list(sampler)

    def changed(order: list[int]) -> int:
        return sum(a != b for a, b in zip(first, order, strict=True))

    return {
        "without set_epoch": changed(second),
        "with: more than 900": int(changed(other) > 900),
        "epoch 0 again": changed(again),
    }


class Draws(Dataset[list[float]]):
    """Random numbers from three sources, as an augmentation would draw them."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)  # copied into every worker, with its state

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> list[float]:
        return [np.random.random(), torch.rand(()).item(), self.generator.random()]


def draws(workers: int = 4) -> list[list[float]]:
    """Returns the first draw of each worker, from the three sources."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more workers than cores
        loader = DataLoader(Draws(), batch_size=None, num_workers=workers, multiprocessing_context="fork")
        return [list(sample) for sample in loader]


@claim(
    "input-random-streams",
    "The first draws of 4 workers are {expected[numpy.random]} different numbers from numpy.random and torch.rand, "
    "and {expected[generator of the data set]} number from a NumPy generator that the data set made before the workers "
    "started. A second rank with the same torch seed repeats all {expected[numpy.random]} of numpy.random.",
    expected={
        "numpy.random": 4,
        "torch.rand": 4,
        "generator of the data set": 1,
        "second rank, same seed: repeats": 4,
        "second epoch: generator repeats": 1,
    },
    unit="numbers",
)
def random_streams() -> dict[str, float]:
    """Draws one number per worker and source; the second rank is a loader made after the same torch.manual_seed."""
    first, second_rank = draws(), draws()
    loader = DataLoader(Draws(), batch_size=None, num_workers=1, multiprocessing_context="fork")
    epochs = [[sample[2] for sample in loader] for _ in range(2)]
    kinds = ("numpy.random", "torch.rand", "generator of the data set")
    counts: dict[str, float] = {kind: len({draw[place] for draw in first}) for place, kind in enumerate(kinds)}
    repeated = {draw[0] for draw in first} & {draw[0] for draw in second_rank}
    counts["second rank, same seed: repeats"] = len(repeated)
    counts["second epoch: generator repeats"] = int(epochs[0] == epochs[1])
    return counts


class CountedSampler(Sampler[int]):
    """Indices in order, which counts how many it has given."""

    given = 0

    def __iter__(self) -> Iterator[int]:
        for index in range(100):
            self.given += 1
            yield index

    def __len__(self) -> int:
        return 100


class Numbers(Dataset[int]):
    """The numbers 0 to 99."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> int:
        return index


@claim(
    "input-position-is-ahead",
    "After {expected[trained on]} batches, the sampler of a loader with 2 workers and prefetch_factor=2 has given the "
    "indices of {expected[given]} batches: resuming from the sampler skips {expected[skipped]}.",
    expected={"trained on": 3, "given": 7, "skipped": 4},
    unit="batches",
)
def position_is_ahead() -> dict[str, float]:
    """Takes three batches of one sample each and counts what the sampler has given."""
    sampler = CountedSampler()
    options = {"num_workers": 2, "prefetch_factor": 2, "multiprocessing_context": "fork"}
    batches = iter(DataLoader(Numbers(), batch_size=1, sampler=sampler, **options))  # type: ignore[arg-type]
    trained = [next(batches) for _ in range(3)]
    given = sampler.given
    for _ in batches:  # to the end, so that the workers finish
        pass
    return {"trained on": len(trained), "given": given, "skipped": given - len(trained)}
