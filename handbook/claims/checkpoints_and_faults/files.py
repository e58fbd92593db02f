"""Claims of handbook/checkpoints-and-faults.md: damaged files, and the stall of a save."""

import hashlib
import io
import random
import statistics
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_saver import async_save, save
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.lab_model import next_token_loss
from rankzero.learn.distributed.world import run_world
from rankzero.learn.models.gpt import GPT, GPTConfig


@claim(
    "damaged-file-loads",
    "With one bit flipped in its tensors, torch.load reads {expected[loaded]} of 200 files without an error, and each "
    "holds wrong weights; SHA-256 notices all {expected[noticed by SHA-256]}.",
    expected={"loaded": 200, "wrong weights": 200, "noticed by SHA-256": 200},
    unit="of 200 files",
    source="[PyTorch](https://github.com/pytorch/pytorch/pull/28858), which switched off the check",
)
def damaged_file_loads() -> Mapping[str, float]:
    """Saves 250,000 random weights, flips one random bit of their bytes in the file, loads it, and compares."""
    weights, file = torch.rand(250_000, generator=torch.Generator().manual_seed(0)), io.BytesIO()
    torch.save({"weights": weights}, file)
    content = file.getvalue()
    start, digest = content.index(weights.numpy().tobytes()), hashlib.sha256(content).digest()
    draw = random.Random(0)
    counts = {"loaded": 0, "wrong weights": 0, "noticed by SHA-256": 0}
    for _ in range(200):
        damaged = bytearray(content)
        damaged[start + draw.randrange(weights.nbytes)] ^= 1 << draw.randrange(8)
        counts["noticed by SHA-256"] += hashlib.sha256(damaged).digest() != digest
        try:
            loaded = torch.load(io.BytesIO(bytes(damaged)), weights_only=True)
        except Exception:  # any error counts as noticed
            continue
        counts["loaded"] += 1
        counts["wrong weights"] += not torch.equal(loaded["weights"], weights)
    return counts


WAYS = ("no save", "synchronous", "asynchronous")
STEPS, SAVED_BEFORE = 10, 4  # the save is between steps 3 and 4


class DataParallelRun:
    """A GPT in DDP on each rank, its steps and its saves; each rank writes a part of the state."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = DistributedDataParallel(GPT(GPTConfig(vocab_size=256, n_layer=2, n_head=4, hidden_dim=512)))
        self.optimizer = AdamW(self.model.parameters())
        self.tokens = torch.randint(256, (1, 17))
        self.group = dist.new_group()  # the writing thread's collectives must not mix with those of training

    def step(self) -> float:
        """Makes a training step; returns its time in ms."""
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        next_token_loss(self.model, self.tokens).backward()
        self.optimizer.step()
        return 1000 * (time.perf_counter() - begin)

    def save(self, way: str, folder: Path) -> Future[Any] | None:
        """Saves in one of WAYS; an asynchronous save returns its Future."""
        if way == "no save":
            return None
        weights, state = get_state_dict(self.model, self.optimizer)
        parts = {"model": weights, "optimizer": state}
        if way == "synchronous":
            save(parts, checkpoint_id=folder)
            return None
        writing = async_save(parts, checkpoint_id=folder, process_group=self.group)
        assert isinstance(writing, Future)
        return writing

    def steps_around_a_save(self, way: str, folder: Path) -> dict[str, list[float]]:
        """Returns the times of STEPS steps in ms, of the stall before step SAVED_BEFORE, and of writing after it."""
        dist.barrier()
        times, stall, ends = [], 0.0, [0.0]
        for number in range(1, STEPS + 1):
            if number == SAVED_BEFORE:
                begin = time.perf_counter()
                writing = self.save(way, folder)
                ends[0] = time.perf_counter()
                stall = 1000 * (ends[0] - begin)
                if writing:
                    writing.add_done_callback(lambda _: ends.append(time.perf_counter()))
            times.append(self.step())
        if writing:
            writing.result()
        size = sum(file.stat().st_size for file in folder.glob("*")) / 1e6
        return {"steps": times, "stall": [stall], "write": [1000 * (ends[-1] - ends[0])], "MB": [size]}


def timed_saves(folder: str, repeats: int) -> dict[str, list[dict[str, list[float]]]]:
    """On each rank: the times of `repeats` saves of each way, in turn, after one that is not counted."""
    run = DataParallelRun()
    times: dict[str, list[dict[str, list[float]]]] = {way: [] for way in WAYS}
    for repeat in range(repeats + 1):
        for way in WAYS:
            timed = run.steps_around_a_save(way, Path(folder, f"{repeat} {way}"))
            if repeat:
                times[way].append(timed)
    return times


@claim(
    "stall-of-a-save",
    "An asynchronous save of torch.distributed.checkpoint stalls training for less than half as long as a synchronous "
    "one.",
    expected=True,
    unit="",
    source="[PyTorch](https://docs.pytorch.org/tutorials/recipes/distributed_async_checkpoint_recipe.html)",
)
def stall_of_a_save() -> Charted:
    """Times 10 steps of a GPT on 2 processes with a save before the fourth, five times for each way; medians."""
    with tempfile.TemporaryDirectory() as folder:
        times = run_world(timed_saves, 2, folder, 5, seconds=300)[0]
    lines: dict[str, list[tuple[float, float, float, float]]] = {}
    for way, runs in times.items():
        lines[way] = [(step + 1, *spread([run["steps"][step] for run in runs])) for step in range(STEPS)]
        for part in ("stall", "write", "MB"):
            lines[f"{way}: {part}"] = [(SAVED_BEFORE, *spread([run[part][0] for run in runs]))]
    stalls = {way: lines[f"{way}: stall"][0][1] for way in WAYS}
    chart = Chart("steps around one save", "step", "ms", lines)
    return Charted(stalls["asynchronous"] < stalls["synchronous"] / 2, chart)


def spread(values: list[float]) -> tuple[float, float, float]:
    """Median, lowest, highest."""
    return statistics.median(values), min(values), max(values)
