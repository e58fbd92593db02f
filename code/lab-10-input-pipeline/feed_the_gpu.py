"""Lab 10: find a training loop that waits for its data, and shorten the waiting, one change at a time.

Read `Pictures`, `ladder` and `measure` first: how a batch is made, the loader's settings, which time counts as waiting.
Imports from rankzero.learn are not the lesson. B = pictures per batch, C = channels, S = pixels per side.

    python feed_the_gpu.py                                                  # under a minute on two CPU cores
    python feed_the_gpu.py --data FOLDER --side 28 --text tinyshakespeare   # files in MNIST's format, another text
    torchrun --nproc-per-node 2 feed_the_gpu.py                             # the pictures divided over two ranks
"""

import argparse
import functools
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # before torch: its profiler would announce itself on stderr

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from rankzero.errors import UserError
from rankzero.learn.data.augment import channel_statistics, shifted
from rankzero.learn.data.documents import load_documents
from rankzero.learn.data.image_sets import load_images
from rankzero.learn.data.slow_store import SlowStore, decoded
from rankzero.learn.data.text_report import text_report
from rankzero.learn.distributed.rank import as_rank, rank_device
from rankzero.learn.distributed.rank_sync import on_rank_0, silence_other_ranks
from rankzero.learn.machine.device import device_name
from rankzero.learn.models.image_trainer import ImageTrainer, check_sizes
from rankzero.learn.profiling import loader_report as report
from rankzero.learn.profiling.loader_record import Moment, Record
from rankzero.learn.runs.options import (
    StarterParser,
    non_negative_float,
    non_negative_int,
    positive_float,
    positive_int,
)
from rankzero.learn.runs.run_folder import new_run_folder
from rankzero.learn.runs.stop_request import leave_signals_to_parent, start_workers
from rankzero.learn.runs.training_options import run_starter

PROFILED, LADDER_BATCHES, LADDER_EPOCHS = 10, 40, 3  # batches in the profile; at most so many per epoch of the ladder
Rung = tuple[str, dict[str, Any]]  # name, and what it changes in the loader's settings


def make_parser() -> StarterParser:
    story = "Profiles a loop that loads by itself, adds one change to its loader after the other, and prints the waits."
    parser = StarterParser(description=f"Lab 10: find a loop that waits for its data, and feed it. {story}")
    add = parser.add_argument
    add("--data", default="digits", help="'digits', 'fashion-mnist' (a download), or a folder in MNIST's format")
    add("--side", type=positive_int, default=16, help="pixels per side of a picture after decoding, 8 or more")
    add("--text", default="embedded", help="'embedded', 'tinyshakespeare', a UTF-8 text file, or a folder of them")
    add("--merges", type=non_negative_int, default=1792, help="merges of the byte-pair tokenizer, each a new token")
    add("--workers", type=non_negative_int, default=2, help="processes that load; 0: the training process loads")
    add("--prefetch", type=positive_int, default=8, help="batches per worker on the rung that loads further ahead")
    add("--read-ms", type=non_negative_float, default=0.2, help="ms that the read of one picture waits, on average")
    add("--epochs", type=positive_int, default=16, help="epochs of the training after the ladder")
    add("--batch-size", type=positive_int, default=32, help="pictures per step, of all ranks together")
    add("--lr", type=positive_float, default=1e-3, help="AdamW's learning rate")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    add("--seed", type=non_negative_int, default=0, help="random seed of weights, order and shifts")
    add("--out", type=Path, default=Path("runs"), help="folder in which each run makes a new one")
    parser.set_defaults(resume=None)  # a run of seconds is not worth resuming
    return parser


# ------------------------------------------------------------------------------------------- a batch, made by a worker
class Batch(NamedTuple):
    images: Tensor  # uint8 [B, C, S, S]: a quarter of the bytes of float32 on the way to the device
    labels: Tensor  # int64 [B]
    numbers: list[int]  # of the samples; a plain list, since each tensor from a worker is a file in shared memory
    loading: tuple[int, float, float]  # number of the worker, and when it began and ended, in seconds


class Pictures(Dataset[Batch]):
    """Training pictures. The loader requests a batch by a list of pairs (epoch, number)."""

    def __init__(self, store: SlowStore, labels: Tensor, side: int, seed: int) -> None:
        self.store, self.labels, self.side, self.seed = store, labels, side, seed
        self.decoded: Tensor | None = None  # uint8 [N, C, S, S], on the ladder's last rung

    def picture(self, number: int) -> Tensor:
        """One picture, uint8 [C, S, S]: work with the same result each time."""
        if self.decoded is not None:
            return self.decoded[number]
        with record_function("read"):
            content = self.store.read(number)
        with record_function("decode"):
            return decoded(content, self.side)

    def __getitem__(self, keys: list[tuple[int, int]]) -> Batch:
        begin, images = time.perf_counter(), []
        for epoch, number in keys:
            picture = self.picture(number)
            with record_function("augment"):  # work with another result in each epoch
                # A generator per sample: workers and restarts do not change a shift.
                generator = np.random.default_rng((self.seed, epoch, number))
                images.append(shifted(picture, generator))
        numbers = [number for _, number in keys]
        batch = torch.stack(images), self.labels[numbers]
        worker = info.id if (info := get_worker_info()) else 0
        return Batch(*batch, numbers, (worker, begin, time.perf_counter()))


class EpochOrder(Sampler[list[tuple[int, int]]]):
    """Draws the batches of an epoch: whole batches, of which this rank takes its share.

    The epoch is sent with each number: a persistent worker keeps its own copy of the data set, with the old epoch.
    """

    def __init__(self, count: int, batch_size: int, seed: int, rank: int, ranks: int) -> None:
        self.count, self.batch_size, self.seed, self.rank, self.ranks = count, batch_size, seed, rank, ranks
        self.epoch = 0

    def __len__(self) -> int:
        return self.count // self.batch_size  # leaves out the last samples of the order: others in each epoch

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        generator = np.random.default_rng((self.seed, self.epoch))  # the same on every rank
        order = generator.permutation(self.count)
        for batch in order[: len(self) * self.batch_size].reshape(len(self), self.batch_size):
            yield [(self.epoch, number) for number in batch[self.rank :: self.ranks].tolist()]


# ---------------------------------------------------------------------------------------------------------- the loader
def ladder(workers: int, prefetch: int) -> Iterator[Rung]:
    """Yields each rung's name and the loader's settings that it adds; the last rung changes the data set instead."""
    yield "this process loads", {"num_workers": 0}
    if workers:  # each prepares 2 batches ahead, DataLoader's default
        name = "+ 1 worker" if workers == 1 else f"+ {workers} workers"
        yield name, {"num_workers": workers, "prefetch_factor": 2}
        yield "+ pinned memory", {"pin_memory": True}
        yield f"+ {prefetch} batches ahead", {"prefetch_factor": prefetch}
        yield "+ persistent workers", {"persistent_workers": True}
    yield "+ decoded once", {}


def make_loader(pictures: Pictures, order: EpochOrder, settings: dict[str, Any]) -> "DataLoader[Batch]":
    if settings["num_workers"] and sys.platform == "linux":
        settings = settings | {"multiprocessing_context": "fork"}  # a spawned worker imports torch first
    # Workers that wait for a disk may outnumber the cores.
    warnings.filterwarnings("ignore", message="This DataLoader will create .* worker processes", category=UserWarning)
    # batch_size=None: an item of the data set is a whole batch
    return DataLoader(pictures, batch_size=None, sampler=order, worker_init_fn=leave_signals_to_parent, **settings)


def measure(loader: Iterable[Batch], order: EpochOrder, epochs: Iterable[int], step: Callable[..., Tensor]) -> Record:
    """Trains for some epochs. All time outside of `step` counts as waiting, also the start of the workers."""
    record = Record([], [], [])
    for order.epoch in epochs:
        asked = time.perf_counter()
        for batch in start_workers(loader):  # unless they live on from the epoch before
            taken = time.perf_counter()
            with record_function("train_step"):
                record.losses.append(step(batch.images, batch.labels))
            done = time.perf_counter()
            record.moments.append(Moment(*batch.loading, asked, taken, done))
            record.numbers.extend(batch.numbers)
            asked = done
    return record


# ------------------------------------------------------------------------------------------------------------- the run
def climb(
    rungs: Iterable[Rung], pictures: Pictures, order: EpochOrder, trainer: Callable[[], ImageTrainer]
) -> tuple[dict[str, Record], dict[str, Any]]:
    """Trains the same steps with each loader of the ladder; returns the records, and the last loader's settings."""
    records, settings = dict[str, Record](), dict[str, Any]()
    print(f"\n{report.LADDER_HEADING}")
    for name, change in rungs:
        if "pin_memory" in change and rank_device().type != "cuda":
            print(f"{name:<24}   left out: only a GPU copies from pinned memory")
            continue
        if not change:
            pictures.decoded = torch.stack([pictures.picture(number) for number in range(len(pictures.store))])
        settings |= change
        loader = make_loader(pictures, order, settings)
        records[name] = measure(loader, order, range(LADDER_EPOCHS), trainer().step)
        print(report.ladder_row(name, records[name], order.batch_size))
    return records, settings


def train(options: argparse.Namespace, saved: object) -> int:
    """Profiles, climbs the ladder, trains a CNN beside an MLP, and reports on the text; returns the exit code."""
    silence_other_ranks()
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), rank_device()
    data, texts = load_images(options.data), load_documents(options.text)
    count, size = len(data.train_images), options.batch_size
    check_sizes(size, options.side, count, ranks)
    if options.workers > LADDER_BATCHES:  # each worker is a process
        raise UserError(
            f"--workers {options.workers} is more than the {LADDER_BATCHES} batches of an epoch: use fewer."
        )
    folder = on_rank_0(lambda: new_run_folder(options.out, "lab-10"))
    if device.type == "cpu":
        torch.set_num_threads(max(1, torch.get_num_threads() - 1))  # leaves a core to the workers
    torch.backends.cudnn.deterministic = True  # otherwise equal batches may have different losses on a GPU
    print(f"device  {ranks} rank{'s' * (ranks > 1)} on {device.type} ({device_name(device)})")
    print(f"data    {data.summary()}")
    pictures = Pictures(SlowStore(data.train_images, options.read_ms), data.train_labels, options.side, options.seed)
    print(f"disk    simulated: {pictures.store.summary()}")
    print(f"run     ladder, then {options.epochs} x {count // size} steps of batches of {size}, into {folder}/\n")
    held_out = torch.stack([decoded(file, options.side) for file in SlowStore(data.val_images, 0).files])
    statistics = [part.to(device) for part in channel_statistics(data.train_images)]  # of training pictures alone
    trainer = functools.partial(ImageTrainer, statistics, options.side, len(data.classes), options.lr, options.seed)
    order_of = functools.partial(EpochOrder, batch_size=size, seed=options.seed, rank=rank, ranks=ranks)

    order = order_of(min(count, PROFILED * size))
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        measure(make_loader(pictures, order, {"num_workers": 0}), order, [0], trainer().step)
    print(report.profile_table(profiler, len(order)))

    order = order_of(min(count, LADDER_BATCHES * size))
    records, settings = climb(ladder(options.workers, options.prefetch), pictures, order, trainer)
    print(verdict := report.compare_losses(records))

    model, order, losses = trainer(mlp=True), order_of(count), list[Tensor]()
    loader = make_loader(pictures, order, settings)  # the last one of the ladder
    print(f"\nmodel   {model.summary()}")
    for epoch in range(options.epochs):
        record = measure(loader, order, [epoch], model.step)
        losses += record.losses
        if epoch + 1 in (1, 2, 4, 8, options.epochs):
            right = model.shares_right(held_out, data.val_labels)
            print(report.epoch_row(len(losses), len(order) * options.epochs, record, right))
    print(report.sample_counts(record, count))
    if rank == 0:
        report.write_files(folder, vars(options), records, losses)
        print("\n" + text_report(options.text, *texts, merges=options.merges))
    print(f"\nfiles   {folder}/: ladder.png, timeline.png, log.jsonl")
    return int(not verdict.startswith("equal"))


def main(arguments: list[str] | None = None) -> int:
    return run_starter(make_parser(), as_rank(train), arguments, lab="lab-10")


if __name__ == "__main__":
    sys.exit(main())
