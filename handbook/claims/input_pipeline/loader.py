"""Claims of handbook/input-pipeline.md: cost of each stage, share of a step that waits, and the start of an epoch."""

import io
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import Spread

STEP_MS, LOAD_MS = 40.0, 120.0


def photograph(seed: int) -> bytes:
    """Returns a JPEG file of 512 x 384 pixels: smooth shapes with some noise, so that it compresses as a photo does."""
    draw = np.random.default_rng(seed)
    coarse = Image.fromarray(draw.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    smooth = coarse.resize((512, 384), Image.Resampling.BICUBIC)
    noisy = np.asarray(smooth, dtype=np.int16) + draw.integers(-8, 9, (384, 512, 3))
    file = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def decoded(content: bytes) -> Image.Image:
    """Returns the pixels of a JPEG file."""
    picture = Image.open(io.BytesIO(content))
    picture.load()
    return picture


def as_tensor(picture: Image.Image) -> Tensor:
    """Returns a picture as a normalized float32 tensor [3, H, W]."""
    return (torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255 - 0.5) / 0.25


@claim(
    "input-stage-costs",
    "For pictures of 512 x 384 pixels, decoding the JPEG takes more than 5 times as long as reading the file from the "
    "operating system's cache; decoding and resizing take more than half of the time until the batch is collated.",
    expected={"decode over read: more than 5": 1, "decode and resize: more than half": 1},
    unit="",
)
def stage_costs() -> Charted:
    """Times each stage for 48 JPEG files on one thread: read, decode, resize to 224 x 224, flip, float, collate."""
    stages: dict[str, list[float]] = {name: [] for name in ("read", "decode", "resize, flip", "to float", "collate")}

    def timed(name: str, work: Callable[[], object], count: int = 1) -> object:
        begin = time.perf_counter()
        result = work()
        stages[name].append(1e3 * (time.perf_counter() - begin) / count)
        return result

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a worker
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{index}.jpg") for index in range(48)]
        for index, file in enumerate(files):
            file.write_bytes(photograph(index % 8))
        tensors = []
        for file in files:
            content = timed("read", file.read_bytes)
            picture = timed("decode", lambda content=content: decoded(content))  # type: ignore[misc]
            small = timed(
                "resize, flip",
                lambda picture=picture: picture.resize((224, 224)).transpose(Image.Transpose.FLIP_LEFT_RIGHT),  # type: ignore[misc]
            )
            tensors.append(timed("to float", lambda small=small: as_tensor(small)))  # type: ignore[misc]
        for start in range(0, 48, 16):
            timed("collate", lambda start=start: default_collate(tensors[start : start + 16]), 16)  # type: ignore[misc]
    torch.set_num_threads(threads)
    points = {name: Spread.of(times) for name, times in stages.items()}
    middle = {name: spread.median for name, spread in points.items()}
    value = {
        "decode over read: more than 5": int(middle["decode"] > 5 * middle["read"]),
        "decode and resize: more than half": int(
            middle["decode"] + middle["resize, flip"] > sum(middle.values()) / 2,
        ),
    }
    bars: list[Point] = [spread.point(name) for name, spread in points.items()]
    return Charted(value, Chart("Cost per picture", "stage", "ms per picture", {"one core": bars}))


class SlowDisk(Dataset[int]):
    """Whole batches, each of which waits for the milliseconds in `times`, as a read from a slow disk does."""

    def __init__(self, times: Sequence[float]) -> None:
        self.times = times

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, index: int) -> int:
        time.sleep(self.times[index] / 1e3)
        return index


def share_that_waits(batches: SlowDisk, workers: int, step_ms: float, skipped: int, prefetch: int = 2) -> float:
    """Returns the percentage of the steps after `skipped` in which the loop waits for its loader.

    The device is a timer of `step_ms`, because a GPU computes without the cores of the host.
    """
    options = {"prefetch_factor": prefetch, "multiprocessing_context": "fork"} if workers else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more workers than cores
        loader = iter(DataLoader(batches, batch_size=None, num_workers=workers, **options))  # type: ignore[arg-type]
    waited = total = 0.0
    for number in range(len(batches)):
        begin = time.perf_counter()
        next(loader)
        loaded = time.perf_counter()
        time.sleep(step_ms / 1e3)
        if number >= skipped:
            waited += loaded - begin
            total += time.perf_counter() - begin
    return 100 * waited / total


@claim(
    "input-share-that-waits",
    "A slow disk delivers a batch in 3 times the time of a step. The loop waits {expected[0]} % of the time without "
    "workers, {expected[1]:.0f} % with 1, {expected[2]:.0f} % with 2 and {expected[4]} % with 4 or 8.",
    expected={"0": 75, "1": 67, "2": 33, "4": 0, "8": 0},
    unit="% of the time",
    tolerance=9,  # processes change places, and other programs run
)
def waits_by_workers() -> Charted:
    """Adds up the time in next(loader) over 12 steps of 40 ms, three times; each batch sleeps for 120 ms."""
    points: list[Point] = []
    for workers in (0, 1, 2, 4, 8):
        batches = SlowDisk([LOAD_MS] * (12 + 3 * workers))
        shares = [share_that_waits(batches, workers, STEP_MS, 3 * workers) for _ in range(3)]
        points.append(Spread.of(shares).point(float(workers)))
    value = {f"{point[0]:.0f}": point[1] for point in points}
    return Charted(value, Chart("Time waiting for the loader", "workers", "% of the time", {"waits": points}))


@claim(
    "input-prefetch-evens-out",
    "One worker loads a batch in 5 ms, every eighth in 40 ms; a step takes 10 ms. The loop waits more than a tenth of "
    "the time with prefetch_factor=1 and less than half of that with 8, although the mean load time is below the step.",
    expected={"prefetch 1: more than 10 %": 1, "prefetch 8: less than half of that": 1},
    unit="",
)
def prefetch() -> Charted:
    """Adds up the time in next(loader) over 64 steps; the batches sleep, which stands for a slow disk."""
    points: list[Point] = []
    for ahead in (1, 2, 4, 8):
        batches = SlowDisk([40.0 if index % 8 == 7 else 5.0 for index in range(80)])
        share = share_that_waits(batches, 1, 10.0, 16, ahead)
        points.append((float(ahead), share, share, share))
    first, last = points[0][1], points[-1][1]
    value = {"prefetch 1: more than 10 %": int(first > 10), "prefetch 8: less than half of that": int(last < first / 2)}
    return Charted(value, Chart("One slow batch in eight", "prefetch_factor", "% of the time", {"waits": points}))


@claim(
    "input-start-of-an-epoch",
    "A spawned worker takes more than 10 times as long to give its first batch as a forked one; the second epoch of "
    "persistent spawned workers starts in less than a tenth of the first.",
    expected={"spawn over fork: more than 10": 1, "persistent: less than a tenth": 1},
    unit="",
)
def start_of_an_epoch() -> Charted:
    """Times iter(loader) and the first batch of two epochs with 2 workers; the data set is a tensor in memory."""
    data = TensorDataset(torch.arange(64))
    bars: dict[str, list[Point]] = {"first epoch": [], "second epoch": []}
    for name, method, persistent in (
        ("fork", "fork", False),
        ("spawn", "spawn", False),
        ("spawn, persistent", "spawn", True),
    ):
        loader = DataLoader(
            data, 8, num_workers=2, multiprocessing_context=method, persistent_workers=persistent, shuffle=False
        )
        for epoch in bars:
            begin = time.perf_counter()
            batches = iter(loader)
            next(batches)
            elapsed = 1e3 * (time.perf_counter() - begin)
            for _ in batches:  # to the end, so that the workers finish
                pass
            bars[epoch].append((name, elapsed, elapsed, elapsed))
        del batches, loader
    fork, spawn, persistent_first = (point[1] for point in bars["first epoch"])
    value = {
        "spawn over fork: more than 10": int(spawn > 10 * fork),
        "persistent: less than a tenth": int(bars["second epoch"][2][1] < persistent_first / 10),
    }
    return Charted(value, Chart("Time to the first batch", "workers", "ms", bars, "x"))
