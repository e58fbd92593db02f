"""Claims of handbook/compile-and-export.md on generated kernels, their times and their digits."""

import functools
import re
import resource
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.op_counter import calls_of

ROWS, WIDTH, CALLS = 2048, 512, 50
VIEWS = {"detach", "alias", "view", "t", "transpose", "expand"}  # operations that launch nothing


def normalize_and_gate(x: Tensor, weight: Tensor) -> Tensor:
    """LayerNorm and GELU written out as formulas. [B, C] -> [B, C]"""
    centered = x - x.mean(-1, keepdim=True)
    normed = centered * torch.rsqrt((centered * centered).mean(-1, keepdim=True) + 1e-5) * weight
    return 0.5 * normed * (1 + torch.tanh(0.79788456 * (normed + 0.044715 * normed * normed * normed)))


def inputs() -> tuple[Tensor, Tensor]:
    """A batch and a weight."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(ROWS, WIDTH, generator=generator), torch.rand(WIDTH, generator=generator)


def cpu_seconds(action: Callable[[], object]) -> float:
    """Seconds of CPU time of this process and of the compilers that it starts: other programs change them little."""

    def now() -> float:
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    begin = now()
    action()
    return now() - begin


@functools.cache
def compiled_once() -> tuple[Any, list[str], float]:
    """The function compiled without any cache; its generated code; and the CPU seconds of the first call."""
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    torch.set_num_threads(1)
    compiled, code = torch.compile(normalize_and_gate), list[str]()
    with config.patch(force_disable_caches=True, compile_threads=1):
        seconds = cpu_seconds(lambda: code.extend(run_and_get_code(compiled, *inputs())[1]))
    return compiled, code, seconds


@claim(
    "compile-kernels",
    "LayerNorm and GELU written out are {expected[eager]} kernels in eager mode and {expected[compiled]} compiled; "
    "eager mode reads and writes {expected[tensors eager]} tensors of the batch's size, the compiled kernel reads one "
    "and writes one.",
    expected={"eager": 17, "compiled": 1, "tensors eager": 33},
    unit="",
)
def kernels() -> Mapping[str, float]:
    """Counts operations, the full-size tensors of each, and functions in the generated C++; needs a C++ compiler."""
    x, weight = inputs()
    calls = calls_of(lambda: normalize_and_gate(x, weight))
    eager = sum(count for name, count in calls.by_name.items() if name not in VIEWS)
    sizes = FullSize(x.shape)
    with sizes:
        normalize_and_gate(x, weight)
    _, code, _ = compiled_once()
    generated = set(re.findall(r"\bcpp_fused\w*", "".join(code)))
    return {"eager": eager, "compiled": len(generated), "tensors eager": sizes.count}


class FullSize(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts tensors of one shape that operations read or return."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape, self.count = shape, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.count += sum(isinstance(t, Tensor) and t.shape == self.shape for t in (*args, out))
        return out


@claim(
    "compile-pays",
    "Compiled LayerNorm and GELU take less than half of eager's time per call, and the first call more than 100 times "
    "an eager call.",
    expected={"steady: less than half": 1, "first call: more than 100 eager calls": 1},
    unit="",
)
def pays() -> Charted:
    """Takes CPU time of 50 calls each way in turn on one thread, in one process, with the compiler's caches off."""
    compiled, _, first = compiled_once()
    x, weight = inputs()
    normalize_and_gate(x, weight)
    lines: dict[str, list[Point]] = {"eager": [], "compiled": []}
    times: dict[str, list[float]] = {"eager": [], "compiled": []}
    for call in range(1, CALLS + 1):
        for name, function in (("eager", normalize_and_gate), ("compiled", compiled)):
            taken = first if name == "compiled" and call == 1 else cpu_seconds(functools.partial(function, x, weight))
            times[name].append(taken)
            lines[name].append((call, 1000 * taken, 1000 * taken, 1000 * taken))
    eager, steady = statistics.median(times["eager"]), statistics.median(times["compiled"][1:])
    value = {
        "steady: less than half": int(steady < eager / 2),
        "first call: more than 100 eager calls": int(first > 100 * eager),
    }
    return Charted(value, Chart("Time per call", "call", "ms of CPU time", lines, "y"))


@claim(
    "compile-digits",
    "Eager and compiled LayerNorm and GELU are both off by less than 3e-6 from float64, and not equal bit for bit.",
    expected={"eager below 3e-6": 1, "compiled below 3e-6": 1, "equal bit for bit": 0},
    unit="",
)
def digits() -> Charted:
    """Compares both with the same formula in float64; the chart has the largest errors."""
    compiled, _, _ = compiled_once()
    x, weight = inputs()
    exact = normalize_and_gate(x.double(), weight.double())
    results = {"eager": normalize_and_gate(x, weight), "compiled": compiled(x, weight)}
    errors = {name: (result - exact).abs().max().item() for name, result in results.items()}
    value = {f"{name} below 3e-6": int(0 < error < 3e-6) for name, error in errors.items()}
    value["equal bit for bit"] = int(torch.equal(*results.values()))
    points: list[Point] = [(name, error, error, error) for name, error in errors.items()]
    return Charted(value, Chart("Largest error", "", "distance from float64", {"error": points}))


@claim(
    "compile-dropout-masks",
    "From one random seed, compiled dropout keeps the same elements as eager on {expected[by default]} % of the "
    "places, as by chance; with fallback_random on all.",
    expected={"by default": 50, "fallback_random": 100},
    unit="% of the mask",
    tolerance=1,
)
def dropout_masks() -> Mapping[str, float]:
    """Drops half of 100,000 ones eagerly and compiled, from seed 0, with torch._inductor.config.fallback_random."""
    from torch._inductor import config

    ones, measured = torch.ones(100_000), {}
    for name, fallback in (("by default", False), ("fallback_random", True)):
        torch._dynamo.reset()
        with config.patch(fallback_random=fallback):
            masks = []
            for drop in (F.dropout, torch.compile(lambda x, p: F.dropout(x, p))):
                torch.manual_seed(0)
                masks.append(drop(ones, 0.5))
            measured[name] = 100 * (masks[0] == masks[1]).double().mean().item()
    return measured
