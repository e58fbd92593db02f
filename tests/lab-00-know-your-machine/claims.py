"""Claims of labs/lab-00-know-your-machine.md: relations of times in one run, and numbers that no clock decides.

Times are CPU seconds of one thread, which other programs on the machine change little.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.starters import starter
from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load
from rankzero.learn.profiling.step_operations import gpt_operations
from rankzero.ledger.hardware import HARDWARE

CPU = torch.device("cpu")


def exercises() -> Any:
    """The solved exercises."""
    return load(find_lab("00").reference)


@contextmanager
def one_thread() -> Iterator[None]:
    """Runs torch and NumPy on one thread, so that a process's CPU time is the time of the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)


def cpu_seconds(function: Callable[[], object], least: float = 0.02, repeats: int = 7) -> float:
    """CPU seconds of a call: the shortest of several readings, each of at least `least` seconds."""
    calls = exercises().enough_calls(function, least_seconds=least, synchronize=lambda: None, clock=time.process_time)
    times = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            function()
        times.append((time.process_time() - start) / calls)
    return min(times)


def point(x: float | str, y: float) -> Point:
    return x, y, y, y


# ------------------------------------------------------------------------------------------------------ rates by size
def product_seconds(width: int) -> float:
    a, b = torch.randn(width, width), torch.randn(width, width)
    return cpu_seconds(lambda: torch.mm(a, b))


@claim(
    "lab-00-small-products",
    "An fp32 product 16 wide reaches less than a fifth of the rate of the fastest product, and a call with no work "
    "takes more than half of its time. From 256 on, a call is less than 2 % of the time.",
    expected={"16 wide, below a fifth": 1, "16 wide, more than half the call": 1, "256 wide, call below 2 %": 1},
    unit="",
)
def small_products() -> Charted:
    """Times square products on one thread, and a product 1 wide as a call with no work; rates as shares of the best."""
    widths = (16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)
    with one_thread():
        call = product_seconds(1)
        taken = {width: product_seconds(width) for width in widths}
    rates = {width: 2 * width**3 / seconds for width, seconds in taken.items()}
    best = max(rates.values())
    lines = {
        "measured": [point(width, 100 * rate / best) for width, rate in rates.items()],
        "share of the call": [point(width, 100 * min(1, call / seconds)) for width, seconds in taken.items()],
        "call and work": [point(w, 100 * (2 * w**3 / best) / (call + 2 * w**3 / best)) for w in widths],
    }
    value = {
        "16 wide, below a fifth": int(rates[16] < best / 5),
        "16 wide, more than half the call": int(call > taken[16] / 2),
        "256 wide, call below 2 %": int(call < taken[256] / 50),
    }
    return Charted(value, Chart("Rates of square products", "width", "% of the highest rate", lines, log="x"))


@claim(
    "lab-00-copies",
    "Copies that fit into a cache reach more than twice the bandwidth of copies of 256 MiB.",
    expected=True,
    unit="",
)
def copies() -> Charted:
    """Times copies of fp32 numbers on one thread; bandwidths as multiples of that of the largest."""
    rates = {}
    with one_thread():
        for power in range(13, 29):
            source = torch.ones(2**power // 8)
            target = torch.empty_like(source)
            rates[2**power] = 2**power / cpu_seconds(lambda s=source, t=target: t.copy_(s), 0.01)  # type: ignore[misc]
    memory = rates[2**28]
    lines = {"copy": [point(size, rate / memory) for size, rate in rates.items()]}
    holds = max(rate for size, rate in rates.items() if size <= 2**23) > 2 * memory
    return Charted(holds, Chart("Bandwidth of copies", "bytes", "times the memory's", lines, log="x"))


@claim(
    "lab-00-four-ways",
    "A product 128 wide: NumPy is more than 300 times as fast as three loops in Python, tiles of 32 with NumPy's "
    "products inside lie between, and torch is within a factor of 5 of NumPy.",
    expected={"NumPy over loops, above 300": 1, "tiles between": 1, "torch within 5": 1},
    unit="",
)
def four_ways() -> Charted:
    """Times the starter's loops, its tiled product, NumPy and torch on one thread, on the same numbers."""
    lab = starter("00")
    a, b = (np.random.default_rng(seed).standard_normal((128, 128)).astype(np.float32) for seed in (0, 1))
    lists, tensors = (a.tolist(), b.tolist()), (torch.from_numpy(a), torch.from_numpy(b))
    with one_thread():
        taken = {
            "three loops in Python": cpu_seconds(lambda: lab.loops(*lists), repeats=3),
            "tiles of 32, NumPy inside": cpu_seconds(lambda: lab.tiled(a, b)),
            "NumPy": cpu_seconds(lambda: a @ b),
            "torch": cpu_seconds(lambda: torch.mm(*tensors)),
        }
    slow, tiles, fast, other = taken.values()
    value = {
        "NumPy over loops, above 300": int(slow / fast > 300),
        "tiles between": int(fast < tiles < slow),
        "torch within 5": int(fast / 5 < other < 5 * fast),
    }
    lines = {"times as fast": [point(name, slow / seconds) for name, seconds in taken.items()]}
    return Charted(value, Chart("One product, four ways", "", "times the rate of the loops", lines, log="x"))


# ---------------------------------------------------------------------------------------------------------- the timer
class Queue:
    """A device that works later than it is called: one thread beside the program, with a queue of products."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool, self.work = pool, []  # type: ignore[var-annotated]

    def multiply(self, a: torch.Tensor, b: torch.Tensor) -> None:
        future: Future[torch.Tensor] = self.pool.submit(torch.mm, a, b)
        self.work.append(future)

    def synchronize(self) -> None:
        for future in self.work:
            future.result()
        self.work.clear()


@claim(
    "lab-00-timer-without-synchronize",
    "On a device that works in a queue, a timer without synchronization gives a product 768 wide more than 5 times its "
    "rate, above any peak, and less than a third more time than a product 384 wide, which has an eighth of the FLOPs.",
    expected={"above 5 times its rate": 1, "less than a third more time": 1},
    unit="",
)
def timer_without_synchronize() -> Charted:
    """Times products on a thread with a queue by the solved `measure`, with its synchronization and with none."""
    lab, lines = exercises(), {"with synchronize": [], "without": []}  # type: ignore[var-annotated]
    seconds: dict[tuple[str, int], float] = {}
    with one_thread(), ThreadPoolExecutor(1) as pool:
        queue = Queue(pool)
        for width in (64, 96, 128, 192, 256, 384, 512, 768):
            a, b = torch.randn(width, width), torch.randn(width, width)
            for name, wait in (("with synchronize", queue.synchronize), ("without", lambda: None)):
                times = []
                for _ in range(9):
                    times.append(
                        lab.measure(lambda a=a, b=b: queue.multiply(a, b), warmup=1, repeats=5, synchronize=wait)
                    )
                    queue.synchronize()
                seconds[name, width] = min(times)
    best = max(2 * width**3 / taken for (name, width), taken in seconds.items() if name == "with synchronize")
    for (name, width), taken in seconds.items():
        lines[name].append(point(width, 100 * 2 * width**3 / taken / best))
    value = {
        "above 5 times its rate": int(seconds["with synchronize", 768] > 5 * seconds["without", 768]),
        "less than a third more time": int(seconds["without", 768] < 4 / 3 * max(seconds["without", 384], 1e-7) + 2e-5),
    }
    return Charted(value, Chart("A timer without synchronize", "width", "% of the highest true rate", lines, log="xy"))


@claim(
    "lab-00-first-calls",
    "The first call of a convolution of a new shape takes more than twice the CPU time of a later call; the mean of "
    "ten calls that contains it is more than a tenth above their median.",
    expected={"first above twice": 1, "mean above a tenth": 1},
    unit="",
)
def first_calls() -> Charted:
    """Times ten calls in a row of convolutions of shapes new to this process; each call's median over 9 shapes."""
    rows = []
    with one_thread():
        for extra in range(9):
            images, weights = torch.randn(4, 8, 13 + extra, 11), torch.randn(16, 8, 3, 3)
            times = []
            for _ in range(10):
                start = time.process_time_ns()
                torch.conv2d(images, weights)
                times.append(time.process_time_ns() - start)
            rows.append(np.array(times) / np.median(times))
    calls = np.median(rows, axis=0)
    lines = {"call": [point(number, float(calls[number - 1])) for number in range(1, 11)]}
    means = float(np.median([row.mean() for row in rows]))
    value = {"first above twice": int(calls[0] > 2), "mean above a tenth": int(means > 1.1)}
    return Charted(value, Chart("Ten calls of a new shape", "number of the call", "times the median", lines))


# --------------------------------------------------------------------------------------------------------- operations
@claim(
    "lab-00-operations",
    "Arithmetic intensities of operations of the labs' GPT in fp32: {expected[MLP up]:.0f} FLOP/B for the layer that "
    "widens, {expected[one row]:.1f} for the same kind of layer with one row, {expected[GELU]} for GELU and "
    "{expected[AdamW]} for fused AdamW.",
    expected={"qkv": 42.67, "scores": 8, "MLP up": 45.18, "one row": 0.4952, "GELU": 1.25, "AdamW": 0.5},
    tolerance=5e-3,
    unit="FLOP/B",
)
def operations() -> Mapping[str, float]:
    """Counts the FLOPs of the starter's operations by PyTorch's counter, and the bytes of their tensors."""
    found = {operation.name: operation.cost() for operation in gpt_operations(12, 64, 128, 4, 96, CPU)}
    names = ("qkv", "scores", "MLP up", "one row", "GELU", "AdamW")
    return {name: found[name][0] / found[name][1] for name in names}


@claim(
    "lab-00-under-the-roof",
    "On one thread of this CPU, MLP up reaches more than half of the peak, and fused AdamW less than a half of it, "
    "because its bytes take longer. A product 32 wide stays below both roofs: less than 60 % of its time is work.",
    expected={"MLP up above half": 1, "AdamW below half": 1, "32 wide, call above 40 %": 1},
    unit="",
)
def under_the_roof() -> Charted:
    """Times the starter's operations, a product, copies and a call on one thread; rates as shares of the peak."""
    with one_thread():
        operations = gpt_operations(12, 64, 128, 4, 96, CPU)
        call = product_seconds(1)
        rates = {}
        for operation in operations:
            flops, moved = operation.cost()
            rates[operation.name] = flops / moved, flops / cpu_seconds(operation.run)
        peak = max(*(rate for _, rate in rates.values()), *(2 * n**3 / product_seconds(n) for n in (256, 512)))
        bandwidths = {"cache": 0.0, "memory": 0.0}
        for name, power in (("cache", 19), ("cache", 20), ("cache", 21), ("memory", 28)):
            source = torch.ones(2**power // 8)
            target = torch.empty_like(source)
            rate = 2**power / cpu_seconds(lambda s=source, t=target: t.copy_(s))  # type: ignore[misc]
            bandwidths[name] = max(bandwidths[name], rate)
        small = product_seconds(32)
    lines = {name: [point(x, 100 * rate / peak)] for name, (x, rate) in rates.items()}
    lines |= {f"roof of {name}": [point(peak / rate, 100.0)] for name, rate in bandwidths.items()}
    value = {
        "MLP up above half": int(rates["MLP up"][1] > peak / 2),
        "AdamW below half": int(rates["AdamW"][1] < peak / 2),
        "32 wide, call above 40 %": int(call > 0.4 * small),
    }
    return Charted(value, Chart("Operations of a GPT under the roof", "FLOP/B", "% of the peak", lines, log="xy"))


@claim(
    "lab-00-counted-once",
    "With a multiply-add counted as one FLOP, a layer 4,096 wide in bf16 seems to need {expected[once]:,.0f} rows to "
    "reach the ridge of an H100; it needs {expected[twice]:,.0f}.",
    expected={"twice": 345, "once": 830},
    tolerance=0.5,
    unit="rows",
)
def counted_once() -> Mapping[str, float]:
    """Computes the rows by the solved exercise; half of the FLOPs are those of a ridge twice as high."""
    lab, h100 = exercises(), HARDWARE["h100"]
    return {
        name: lab.rows_to_reach_ridge(4096, 4096, "bf16", lab.Roof(factor * h100.peaks[2], h100.hbm))
        for name, factor in (("twice", 1), ("once", 2))
    }


@claim(
    "lab-00-padding",
    "A product 4,097 wide, in tiles of 128, wastes {expected[4,097 in 128]:.1f} % of its work; a vocabulary of 50,257 "
    "padded to 50,304 wastes {expected[50,257 in 64]:.2f} %.",
    expected={"4,097 in 128": 8.75, "50,257 in 64": 0.0934},
    tolerance=5e-3,
    unit="%",
)
def padding() -> Mapping[str, float]:
    """Computes the shares by the solved exercise."""
    lab = exercises()
    return {
        "4,097 in 128": 100 * lab.padded_share((4097,) * 3, (128,) * 3),
        "50,257 in 64": 100 * lab.padded_share((50257,), (64,)),
    }


@claim(
    "lab-00-int8-product",
    "A product 256 wide of normally distributed numbers differs from the exact one by {expected[int8]:.1f} % in int8 "
    "with a scale per row and column, and by {expected[bf16]:.2f} % in bf16.",
    expected={"int8": 1.00, "bf16": 0.29},
    tolerance=0.02,
    unit="% of the norm",
)
def int8_product() -> Mapping[str, float]:
    """Runs the starter's comparison."""
    errors = starter("00").product_errors()
    return {name: 100 * errors[name] for name in ("int8", "bf16")}


@claim(
    "lab-00-ceilings",
    "The starter's ceilings agree with those of other programs within 20 %: a loop of NumPy's products, and NumPy's "
    "copies.",
    expected={"peak": 1, "bandwidth": 1},
    unit="",
)
def ceilings() -> Mapping[str, int]:
    """Measures both by turns on one thread, five times, and compares the best of each: ratios of one run."""
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    left, right, out = a.numpy().copy(), b.numpy().copy(), np.empty((512, 512), np.float32)
    source = torch.ones(2**25)
    target = torch.empty_like(source)
    same = target.numpy(), source.numpy()  # other memory may have other pages
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "peak": (lambda: torch.mm(a, b), lambda: np.matmul(left, right, out=out)),
        "bandwidth": (lambda: target.copy_(source), lambda: np.copyto(*same)),
    }
    best = {}
    with one_thread():
        for name, both in pairs.items():
            times = [[cpu_seconds(function, 0.02, 3) for function in both] for _ in range(5)]
            own, other = (min(column) for column in zip(*times, strict=True))
            best[name] = int(0.8 < own / other < 1.25)
    return best
