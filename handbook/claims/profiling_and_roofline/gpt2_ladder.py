"""Claim of handbook/profiling-and-roofline.md: GPT-2 124M from a plain loop to the fastest, by benchmarks/gpt2.py."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.gpu import gpu, pick
from rankzero.curriculum import ROOT


@claim(
    "gpt2-ladder",
    "On an H100 or H200 GPT-2 124M, with every technique of the ladder, trains at 50 % MFU or more, more than 8 times "
    "as fast as the plain fp32 loop; Lab 02's meter and log cost less than 3 % of the bare loop's rate.",
    expected={"MFU of 50 % or more": 1, "more than 8 times the plain loop": 1, "meter costs less than 3 %": 1},
    unit="",
    needs=("cuda",),
)
def gpt2_ladder() -> Charted:
    """Runs benchmarks/gpt2.py, random tokens, 16 sequences of 1,024 tokens, one technique more in each rung."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "ladder.json")
        sizes = pick([], ["--toy", "--batch-size=2", "--steps=1", "--rungs=5"])
        command = [sys.executable, "benchmarks/gpt2.py", "--device", gpu().type, "--json", str(file), *sizes]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"benchmarks/gpt2.py ended with exit code {done.returncode}: {done.stderr[-500:]}")
        *rungs, metered = json.loads(file.read_text())
    plain, last = (rung["tokens_per_s"][0] for rung in (rungs[0], rungs[-1]))
    value = {
        "MFU of 50 % or more": int((rungs[-1]["mfu"] or 0) >= 0.5),
        "more than 8 times the plain loop": int(last > 8 * plain),
        "meter costs less than 3 %": int(metered["tokens_per_s"][0] > 0.97 * last),
    }
    bars: list[Point] = [(rung["name"], *rung["tokens_per_s"]) for rung in (*rungs, metered)]
    return Charted(value, Chart("GPT-2 124M, one technique more in each rung", "", "tokens/s", {"tokens/s": bars}))
