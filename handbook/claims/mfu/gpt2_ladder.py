"""Claims of handbook/mfu.md: GPT-2 124M from a plain loop to the fastest, by benchmarks/gpt2.py."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import gpu, pick, seconds_left
from rankzero.curriculum import ROOT

METERED = "the last rung under Lab 02's meter"
POINT_WISE = "compiled point-wise operations and sums"


def run(program: str, toy: list[str]) -> Any:
    """Runs a program of benchmarks/ and returns its results. What it has not done in time is left out."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "results.json")
        command = [sys.executable, f"benchmarks/{program}", "--device", gpu().type, "--json", str(file)]
        try:
            subprocess.run(
                [*command, *pick([], ["--toy", "--batch-size=2", "--steps=1", *toy])],
                cwd=ROOT, capture_output=True, text=True, check=True, timeout=seconds_left(),
            )  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"{program} ended with exit code {error.returncode}: {error.stderr[-500:]}") from None
        except subprocess.TimeoutExpired:
            if not file.exists():
                raise RuntimeError(f"{program} had no result after {seconds_left():.0f} s") from None
        return json.loads(file.read_text())


@claim(
    "gpt2-ladder",
    "On an H200 GPT-2 124M, with every technique of the ladder, trains at {expected[MFU in %]} % MFU, "
    "{expected[times as fast as the plain loop]} times as fast as the plain fp32 loop; Lab 02's meter and log cost "
    "{expected[cost of the meter in %]} % of the bare loop's rate.",
    expected={"MFU in %": 45, "times as fast as the plain loop": 11, "cost of the meter in %": 1},
    unit="",
    tolerance=3,
    needs=("cuda",),
)
def gpt2_ladder() -> Charted:
    """Runs benchmarks/gpt2.py, random tokens, 16 sequences of 1,024 tokens, one technique more in each rung."""
    rungs = run("gpt2.py", ["--rungs=5"])
    rates = {rung["name"]: rung["tokens_per_s"][0] for rung in rungs}
    metered = rates.pop(METERED, 0.0)
    best = max(rates, key=lambda name: rates[name])
    value = {
        "MFU in %": 100 * (next(rung["mfu"] for rung in rungs if rung["name"] == best) or 0.0),
        "times as fast as the plain loop": rates[best] / rungs[0]["tokens_per_s"][0],
        "cost of the meter in %": 100 * (1 - metered / list(rates.values())[-1]),
    }
    bars: list[Point] = [(rung["name"], *rung["tokens_per_s"]) for rung in rungs]
    return Charted(value, Chart("GPT-2 124M, one technique more in each rung", "", "tokens/s", {"tokens/s": bars}))


@claim(
    "gpt2-kernels",
    "In the fastest step of GPT-2 124M on an H200, {expected[products and attention]} % of the kernels' time is in "
    "matrix products and attention, {expected[compiled point-wise operations and sums]} % in compiled point-wise "
    "operations and sums.",
    expected={"products and attention": 69, "compiled point-wise operations and sums": 27},
    unit="% of the kernels' time",
    tolerance=5,
    needs=("cuda",),
)
def gpt2_kernels() -> Charted:
    """Runs benchmarks/gpt2_kernels.py: the last rung of the ladder under torch.profiler, its kernels by family."""
    times: dict[str, float] = run("gpt2_kernels.py", ["--rungs=5"])["times"]
    kernels = sum(ms for name, ms in times.items() if name != "waiting")
    value = {
        "products and attention": 100 * (times["matrix products"] + times["attention"]) / kernels,
        POINT_WISE: 100 * times[POINT_WISE] / kernels,
    }
    bars: list[Point] = [(name, ms, ms, ms) for name, ms in times.items()]
    return Charted(value, Chart("GPT-2 124M, the fastest step by kernels", "", "ms per step", {"ms per step": bars}))
