"""The reference's stream and seeds in real loaders: several ranks, each with worker processes, stopped and resumed."""

import functools
import json
import random
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load

LENGTH, BATCH = 4, 3


@pytest.fixture
def reference() -> ModuleType:
    return load(find_lab("10").reference)


def loader_of(dataset: Any, workers: int, **settings: Any) -> "DataLoader[Any]":
    return DataLoader(dataset, BATCH, num_workers=workers, multiprocessing_context="fork", **settings)


def trained(stream: Any, workers: int, stop_after: int | None = None) -> Iterator[int]:
    """Yields the windows that a run trains on, and stops after so many batches."""
    for count, batch in enumerate(loader_of(stream, workers), start=1):
        yield from (batch["x"][:, 0] // LENGTH).tolist()
        stream.advance(batch["worker"])
        if count == stop_after:
            return


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # 8 workers on two cores
@pytest.mark.parametrize(
    ("ranks", "workers", "stops"),
    [(3, 4, 2), pytest.param(4, 8, 3, marks=[pytest.mark.prove, pytest.mark.timeout(600)])],
)
def test_each_window_comes_once_over_ranks_workers_and_restarts(
    ranks: int, workers: int, stops: int, reference: ModuleType
) -> None:
    windows = ranks * workers * BATCH * 3 + 5
    tokens = torch.arange(windows * LENGTH + 1)
    draw = random.Random(10)
    for epoch in range(2):
        counts: Counter[int] = Counter()
        for rank in range(ranks):
            new_stream = functools.partial(reference.TextStream, tokens, LENGTH, 3, rank, ranks, workers)
            stream = new_stream()
            if epoch:
                stream.load_state_dict({"epoch": 1, "ranks": ranks, "taken": [0] * workers})
            for _ in range(stops):
                counts.update(trained(stream, workers, draw.randrange(1, workers + 2)))
                state = json.dumps(stream.state_dict())
                stream = new_stream()  # as after a kill: nothing is left but the state
                stream.load_state_dict(json.loads(state))
            counts.update(trained(stream, workers))
            assert stream.epoch == epoch + 1
        assert counts == Counter(range(windows))


class Draws(Dataset[list[float]]):
    """Random numbers of a worker's three generators, in place of samples."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, number: int) -> list[float]:
        return [random.random(), float(np.random.random()), torch.rand(1).item()]


def test_workers_draw_numbers_of_their_own_that_repeat_in_another_run(reference: ModuleType) -> None:
    def numbers(seed: int, epoch: int, rank: int) -> tuple[Any, ...]:
        seeds = functools.partial(reference.seed_worker, seed, epoch, rank)
        batches = list(loader_of(Draws(), 2, worker_init_fn=seeds))
        return tuple(tuple(column.tolist()) for batch in batches for column in batch)

    first = numbers(0, 0, 0)
    assert first == numbers(0, 0, 0)
    everything = [
        number for case in ((0, 0, 0), (0, 1, 0), (0, 0, 1)) for column in numbers(*case) for number in column
    ]
    assert len(set(everything)) == len(everything)


def test_a_learners_tokenizer_agrees_with_the_starters_within_a_word(reference: ModuleType) -> None:
    from rankzero.learn.data.byte_pairs import learn_merges

    text = "".join(random.Random(5).choices("aabbcd", k=300))  # one word: the starter joins no bytes of two words
    assert reference.train_bpe(text, 40) == learn_merges(text, 40)
