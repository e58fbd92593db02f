"""CPU time of Lab 14's autograd engines beside torch's eager mode, on the lab's net.

Forward and backward of the two-layer net on one batch, by the starter's engine, by the engine of the exercises (the
reference, which composes the sigmoid of four operations) and by torch with one thread. The three take turns, so that a
machine that slows down slows all. Prints the median CPU time of a round and its ratio to torch's, for two sizes.

    python benchmarks/autograd_engine.py
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rankzero.curriculum import find_lab
from rankzero.exercises.study.starter_process import replacements
from rankzero.learn.machine.fingerprint import fingerprint

LAB = find_lab("14")
starter = LAB.import_starter()
OWN = {name: getattr(starter, name) for name in replacements(LAB, LAB.reference)}
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "torch": ("torch_step", OWN),
    "starter's engine": ("engine_step", OWN),
    "exercises' engine": ("engine_step", replacements(LAB, LAB.reference)),
}


def seconds(step: Callable[..., Any], arguments: tuple[Any, ...], steps: int) -> float:
    """Returns the CPU seconds per step."""
    start = time.process_time()
    for _ in range(steps):
        step(*arguments)
    return (time.process_time() - start) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="rounds, of which the median counts (default: 20)")
    parser.add_argument("--steps", type=int, default=50, help="steps per round (default: 50)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    facts = fingerprint()
    print(f"{facts['cpu']}, torch {facts['torch']}, NumPy {facts['numpy']}, one thread")
    for batch, hidden in ((64, 32), (512, 256)):
        rng = np.random.default_rng(0)
        shapes = {"w1": (64, hidden), "b1": (hidden,), "w2": (hidden, 10), "b2": (10,)}
        weights = {name: rng.standard_normal(shape) / 8 for name, shape in shapes.items()}
        arguments = weights, rng.random((batch, 64)), rng.integers(10, size=batch), 1e-3
        times: dict[str, list[float]] = {name: [] for name in ENGINES}
        for _ in range(options.rounds):
            for name, (step, functions) in ENGINES.items():
                vars(starter).update(functions)
                times[name].append(seconds(getattr(starter, step), arguments, options.steps))
        print(f"\nbatch {batch}, hidden {hidden}, float64")
        reference = statistics.median(times["torch"])
        for name, values in times.items():
            median = statistics.median(values)
            print(f"{name:<18} {1000 * median:7.3f} ms of CPU time per step, {median / reference:5.2f} times torch's")


if __name__ == "__main__":
    main()
