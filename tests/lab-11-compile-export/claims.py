"""Claims of labs/lab-11-compile-export.md."""

import argparse
import contextlib
import io
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.starters import starter
from rankzero.learn.models.gpt import GPT, GPTConfig

TINY = GPTConfig(vocab_size=32, block_size=64, n_layer=1, n_head=2, hidden_dim=16)
STEPS = 16


def lengths_of_run(steps: int = 60) -> list[int]:
    """Tokens per sequence in each batch of the starter's default run."""
    options = argparse.Namespace(seed=0, block_size=64)
    return [starter("11").length_of(step, options) for step in range(steps)]


@claim(
    "lab-11-compilations",
    "Six lengths make the starter compile {expected[auto]} times with --dynamic auto, {expected[no]} times with no, "
    "{expected[yes]} time with yes.",
    expected={"auto": 2, "no": 6, "yes": 1},
    unit="compilations",
)
def six_lengths() -> Mapping[str, float]:
    """Calls the starter's count_compilations with the lengths of its default run."""
    lab = starter("11")
    loss_of = lab.BatchLoss(GPT(TINY))
    lengths = [24, 32, 40, 48, 56, 64]
    return {name: sum(lab.count_compilations(loss_of, lengths, dynamic)) for name, dynamic in lab.DYNAMIC.items()}


@claim(
    "lab-11-equal-losses",
    "With --backend aot_eager, the losses of 8 steps are equal bit for bit: capturing changes no digit, generated "
    "kernels do.",
    expected=True,
    unit="",
)
def equal_losses() -> bool:
    """Runs the starter with a tiny model, and reads its line about the losses."""
    printed = io.StringIO()
    sizes = ["--hidden-dim=16", "--layers=1", "--heads=2", "--block-size=16", "--batch-size=4", "--device=cpu"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        assert starter("11").main([*sizes, "--backend=aot_eager", "--steps=8", "--out", folder]) == 0
    return "losses        differ by at most 0.0e+00 nats" in printed.getvalue()


@claim(
    "lab-11-export",
    "The exported model gives the same scores as the model, bit for bit, and refuses one token more than the longest "
    "sequence.",
    expected={"same scores": 1, "refused": 1},
    unit="",
)
def export() -> Mapping[str, float]:
    """Calls the starter's export_model with a tiny model, and reads what it prints."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        starter("11").export_model(GPT(TINY), Path(folder), package=False)
    text = printed.getvalue()
    return {
        "same scores": int("it differs by 0.0e+00" in text),
        "refused": int("T = 65        refused: " in text and "64" in text),
    }


@claim(
    "lab-11-padding",
    "Over the 60 batches of the default run, --pad-to 16 adds {expected[to a multiple of 16]:.0f} % padding with "
    "{expected[lengths, to a multiple of 16]} lengths to compile; {expected[lengths as they are]} lengths occur "
    "without it.",
    expected={"to a multiple of 16": 18, "lengths, to a multiple of 16": 3, "lengths as they are": 40},
    tolerance=0.5,
    unit="",
)
def padding() -> Mapping[str, float]:
    """Counts tokens per sequence of each batch before and after the starter's padding."""
    lengths = lengths_of_run()
    row = torch.zeros(1, 1, dtype=torch.int64)
    rounded = [starter("11").padded(row.expand(1, n), row.expand(1, n), 16, 64)[0].shape[1] for n in lengths]
    return {
        "to a multiple of 16": 100 * (sum(rounded) / sum(lengths) - 1),
        "lengths, to a multiple of 16": len(set(rounded)),
        "lengths as they are": len(set(lengths)),
    }


@claim(
    "lab-11-counter",
    "With --dynamic auto, a counter in the loss module makes the starter compile {expected[with the counter]} times in "
    "16 steps; without the counter it compiles {expected[without]} times. After 8 compilations, every step with the "
    "counter runs eagerly.",
    expected={"with the counter": 8, "without": 2},
    unit="compilations in 16 steps",
)
def counter() -> Charted:
    """Takes steps of a tiny model of both kinds with backend aot_eager; the chart has the CPU time of each step."""
    lab = starter("11")
    counted: Any = type("CountsItsCalls", (lab.BatchLoss,), {"calls": 0, "forward": counting_forward})
    measured, lines = {}, {}
    for name, kind in (("with the counter", counted), ("without", lab.BatchLoss)):
        torch._dynamo.reset()
        torch.manual_seed(0)
        loss_of = kind(GPT(TINY))
        run = SimpleNamespace(
            loss_of=torch.compile(loss_of, backend="aot_eager"), optimizer=AdamW(loss_of.parameters())
        )
        before, points = lab.graphs_compiled(), list[Point]()
        for step, length in enumerate(lengths_of_run(STEPS), start=1):
            x = torch.arange(4 * length).view(4, length) % TINY.vocab_size
            begin = time.process_time()
            lab.train_step(run, x, x)
            taken = 1000 * (time.process_time() - begin)
            points.append((step, taken, taken, taken))
        measured[name], lines[name] = lab.graphs_compiled() - before, points
    torch._dynamo.reset()
    return Charted(measured, Chart("Time per step", "step", "ms of CPU time", lines, "y"))


def counting_forward(self: Any, x: Tensor, y: Tensor) -> Tensor:
    """The loss module's forward pass with the counter of counts-its-calls.diff."""
    self.calls += 1
    logits = self.model(x)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
