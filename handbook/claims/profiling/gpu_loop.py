"""Claims of handbook/profiling.md: a training loop on a GPU, and what makes it wait."""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import Spread, free_memory, gpu, milliseconds, pick, rehearsing, synchronize
from rankzero.claims.toolkit.lab_model import token_loss
from rankzero.learn.models.gpt import GPT, GPTConfig


def gpt(width: int, tokens: int, layers: int = 4) -> GPT:
    """A GPT of that width with heads of 64 numbers and 4,096 tokens in its vocabulary, on the GPU."""
    free_memory()
    torch.manual_seed(0)
    return GPT(GPTConfig(pick(4096, 64), tokens, layers, max(1, width // 64), width)).to(gpu())


def batch(rows: int, tokens: int) -> Tensor:
    """Random tokens [rows, tokens] on the GPU."""
    return torch.randint(pick(4096, 64), (rows, tokens), device=gpu())


def wall_milliseconds(step: Callable[[], object], steps: int) -> Spread:
    """Milliseconds per step by the host's clock, over 5 runs of several steps, each waited for."""
    for _ in range(3):
        step()
    samples = []
    for _ in range(pick(5, 2)):
        synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        synchronize()
        samples.append(1e3 * (time.perf_counter() - begin) / steps)
    return Spread.of(samples)


@claim(
    "launch-is-not-the-work",
    "On a GPU, a clock around the call of a large product, without a wait, shows less than a tenth of its time.",
    expected=0,
    tolerance=0.1,
    unit="of the time",
    needs=("cuda",),
)
def launch_time() -> float:
    """Times a product of fp32 matrices [8192, 8192] on the GPU five times with and without a wait, and divides."""
    a = torch.randn(pick(8192, 64), pick(8192, 64), device=gpu())
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for wait in [True, *[False, True] * 5]:
        synchronize()
        start = time.perf_counter()
        _ = a @ a
        if wait:
            synchronize()
        seconds[wait].append(time.perf_counter() - start)
    return statistics.median(seconds[False]) / statistics.median(seconds[True][1:])


@claim(
    "gpu-item-by-width",
    "On a GPU loss.item() in each step costs a larger share of the step for a GPT 128 wide than for one 1,024 wide.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def item_by_width() -> Charted:
    """Times training steps of GPTs on 8 x 512 tokens with and without reading the loss, by the host's clock."""
    shares: list[Point] = []
    for width in pick([128, 256, 512, 1024], [16, 32]):
        model, x = gpt(width, pick(512, 16)), batch(pick(8, 2), pick(512, 16))
        step = step_of(model, x, AdamW(model.parameters()))
        pairs = []
        for _ in range(pick(3, 1)):
            without = wall_milliseconds(step, pick(20, 2)).median
            reading = wall_milliseconds(lambda step=step: step().item(), pick(20, 2)).median  # type: ignore[misc]
            pairs.append((without, reading))
        shares.append(Spread.of([100 * (reading / without - 1) for without, reading in pairs]).point(width))
    chart = Chart("Cost of loss.item() in each step", "width of the model", "% of a step", {"item()": shares}, "x")
    return Charted(shares[0][1] > shares[-1][1], chart)


def copy_rate(size: int, *, pinned: bool) -> Spread:
    """GB/s of a copy of `size` bytes from the host to the GPU."""
    host = torch.ones(size, dtype=torch.uint8, pin_memory=pinned and not rehearsing())
    target = torch.empty_like(host, device=gpu())
    return milliseconds(lambda: target.copy_(host, non_blocking=pinned)).inverse(size / 1e6)


@claim(
    "gpu-pinned-copies",
    "A copy of 256 MiB to the GPU is more than 1.3 times as fast from pinned memory as from pageable memory.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def pinned_copies() -> Charted:
    """Times copies of each size from pinned and from pageable memory, by CUDA events."""
    sizes = pick([2**power for power in range(12, 29, 2)], [2**12, 2**14])
    lines = {
        name: [copy_rate(size, pinned=pinned).point(size) for size in sizes]
        for name, pinned in (("pageable", False), ("pinned", True))
    }
    value = lines["pinned"][-1][1] > 1.3 * lines["pageable"][-1][1]
    return Charted(value, Chart("Copy from host to GPU", "bytes", "GB/s", lines, "xy"))


@claim(
    "gpu-non-blocking",
    "With non_blocking=True, the call that copies 256 MiB from pinned memory returns in less than a tenth of the "
    "copy's time.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def non_blocking() -> Charted:
    """Times the call by the host's clock, and the copy until the GPU has done it, from pinned and pageable memory."""
    size, bars = pick(2**28, 2**14), {}
    for name, pinned in (("pageable", False), ("pinned", True)):
        host = torch.ones(size, dtype=torch.uint8, pin_memory=pinned and not rehearsing())
        target = torch.empty_like(host, device=gpu())
        calls, copies = [], []
        for _ in range(7):
            synchronize()
            begin = time.perf_counter()
            target.copy_(host, non_blocking=True)
            calls.append(1e3 * (time.perf_counter() - begin))
            synchronize()
            copies.append(1e3 * (time.perf_counter() - begin))
        bars[name] = Spread.of(calls), Spread.of(copies)
    lines = {
        "until the call returns": [bars[name][0].point(name) for name in bars],
        "until the copy is done": [bars[name][1].point(name) for name in bars],
    }
    value = bars["pinned"][0].median < 0.1 * bars["pinned"][1].median
    return Charted(value, Chart("A copy with non_blocking=True", "memory of the host", "ms", lines))


class SlowSamples(Dataset[Tensor]):
    """Token sequences whose making keeps a core busy for a millisecond each, as decoding and augmenting do."""

    def __init__(self, count: int, tokens: int, milliseconds_each: float) -> None:
        self.count, self.tokens, self.seconds = count, tokens, milliseconds_each / 1e3

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass
        return torch.full((self.tokens,), index % 64)


@claim(
    "gpu-starved-loader",
    "A loop whose samples take 2 ms of a core each waits for its loader more than half of the time without workers; "
    "with eight workers less than a quarter of that share.",
    expected={"no worker: waits more than half": 1, "8 workers: less than a quarter of that": 1},
    unit="",
    needs=("cuda",),
)
def starved_loader() -> Charted:
    """Adds up the time in next(loader) over 20 steps of a GPT on 16 sequences of 256 tokens, by number of workers."""
    rows, tokens = pick((16, 256), (2, 8))
    model = gpt(pick(512, 16), tokens)
    shares = {}
    for workers in pick([0, 1, 2, 4, 8], [0, 1]):
        samples = SlowSamples(rows * pick(24, 3), tokens, pick(2.0, 0.1))
        loader = iter(DataLoader(samples, rows, num_workers=workers, pin_memory=not rehearsing()))
        waited = []
        for number in range(len(samples) // rows):
            synchronize()
            begin = time.perf_counter()
            x = next(loader)
            loaded = time.perf_counter()
            x = x.to(gpu(), non_blocking=True)
            token_loss(model, x, x).backward()
            synchronize()
            if number >= pick(4, 1):  # the first batches wait for the workers to start
                waited.append((loaded - begin) / (time.perf_counter() - begin))
        shares[workers] = Spread.of([100 * share for share in waited])
    points = [spread.point(workers) for workers, spread in shares.items()]
    most, least = points[0][1], points[-1][1]
    value = {
        "no worker: waits more than half": int(most > 50),
        "8 workers: less than a quarter of that": int(least < most / 4),
    }
    return Charted(value, Chart("Time waiting for the loader", "workers", "% of a step", {"wait": points}))


def step_of(model: nn.Module, x: Tensor, optimizer: AdamW) -> Callable[[], Tensor]:
    """A training step without reading anything, which a CUDA graph can capture."""

    def step() -> Tensor:
        optimizer.zero_grad()  # a graph allocates gradients again from its own memory
        loss = token_loss(model, x, x)
        loss.backward()
        optimizer.step()
        return loss

    return step


def captured(step: Callable[[], Tensor]) -> Callable[[], object]:
    """The step as a CUDA graph, replayed; the step itself in a rehearsal."""
    if rehearsing():
        return step
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


@claim(
    "gpu-launch-bound-step",
    "On a GPU a training step of a GPT 128 wide on 8 x 64 tokens, replayed as a CUDA graph, takes less than half of "
    "the time of the eager step.",
    expected=True,
    unit="",
    needs=("cuda",),
)
def launch_bound_step() -> Charted:
    """Times a step eager, compiled, compiled with mode reduce-overhead, and captured as a CUDA graph by hand."""
    tokens = pick(64, 8)
    spreads = {}
    for name in ["eager", "CUDA graph", *pick(["compile", "reduce-overhead"], [])]:
        model, x = gpt(pick(128, 16), tokens), batch(pick(8, 2), tokens)
        optimizer = AdamW(model.parameters(), fused=True, capturable=not rehearsing())
        if name in ("compile", "reduce-overhead"):
            model.compile(mode=None if name == "compile" else name)
        step = step_of(model, x, optimizer)
        try:
            spreads[name] = wall_milliseconds(captured(step) if name == "CUDA graph" else step, pick(30, 2))
        except RuntimeError:
            if name in ("eager", "CUDA graph"):
                raise
            spreads[name] = Spread(0.0, 0.0, 0.0)  # no compiler on this machine
    chart = Chart("Training step of a small GPT", "", "ms", {"step": [s.point(name) for name, s in spreads.items()]})
    return Charted(spreads["CUDA graph"].median < 0.5 * spreads["eager"].median, chart)


@claim(
    "gpu-backward-to-forward",
    "On a GPU backward takes between 1.5 and 2.5 times as long as forward, for a GPT 1,024 wide on 64 x 512 tokens.",
    expected=2,
    unit="times forward",
    tolerance=0.5,
    needs=("cuda",),
)
def backward_to_forward() -> Charted:
    """Times forward, and forward with backward, by CUDA events for each batch size, in bf16 under autocast."""
    tokens = pick(512, 8)
    model = gpt(pick(1024, 16), tokens)
    points: list[Point] = []
    for rows in pick([1, 4, 16, 64], [1, 2]):
        x = batch(rows, tokens)

        def forward(x: Tensor = x) -> Tensor:
            with torch.autocast(gpu().type, dtype=torch.bfloat16):
                return token_loss(model, x, x)

        alone = milliseconds(forward)
        both = milliseconds(lambda forward=forward: forward().backward())  # type: ignore[misc]
        median, low, high = ((one - alone.median) / alone.median for one in (both.median, both.low, both.high))
        points.append((rows, median, low, high))
    axes = "sequences per batch", "time of backward / forward"
    chart = Chart("Backward as a multiple of forward", *axes, {"ratio": points}, "x")
    return Charted(points[-1][1], chart)
