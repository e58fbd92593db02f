"""Pictures per second of DataLoader beside a bare loop over the same batches.

Reads an epoch of Lab 10's decoded digits by a bare loop, and by a DataLoader with 0, 1 and 2 workers. They take turns,
so that a machine that slows down slows all. Prints the median of each and its ratio to the bare loop's. A worker sends
each batch to another process, which takes time that small pictures do not repay.

    python benchmarks/loader_throughput.py
"""

import argparse
import statistics
import time
from collections.abc import Iterable
from typing import Any

import torch

from rankzero.curriculum import find_lab
from rankzero.learn.data.image_sets import load_images
from rankzero.learn.data.slow_store import SlowStore
from rankzero.learn.machine.fingerprint import fingerprint

BATCH, SIDE = 32, 16
starter = find_lab("10").import_starter()


def pictures_per_second(batches: Iterable[Any]) -> float:
    """Reads all batches; starting the workers, if any, counts."""
    begin = time.perf_counter()
    count = sum(len(batch.labels) for batch in batches)
    return count / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="rounds, of which the median counts (default: 15)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    facts = fingerprint()
    print(f"{facts['cpu']}, torch {facts['torch']}, batches of {BATCH} pictures of {SIDE} x {SIDE}")
    digits = load_images("digits")
    pictures = starter.Pictures(SlowStore(digits.train_images, 0), digits.train_labels, SIDE, seed=0)
    pictures.decoded = torch.stack([pictures.picture(number) for number in range(len(pictures.store))])
    order = starter.EpochOrder(len(digits.train_labels), BATCH, seed=0, rank=0, ranks=1)
    loaders = {f"DataLoader, {workers} workers": {"num_workers": workers} for workers in (0, 1, 2)}
    rates: dict[str, list[float]] = {name: [] for name in ("bare loop", *loaders)}
    for _ in range(options.rounds):
        rates["bare loop"].append(pictures_per_second(pictures[keys] for keys in order))
        for name, settings in loaders.items():
            rates[name].append(pictures_per_second(starter.make_loader(pictures, order, settings)))
    reference = statistics.median(rates["bare loop"])
    for name, values in rates.items():
        median = statistics.median(values)
        print(f"{name:<21} {median:9,.0f} pictures/s, {median / reference:5.2f} times the bare loop's")


if __name__ == "__main__":
    main()
