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

METERED = "the last rung under Lab 02's meter"
SECONDS = 230.0  # what is not done by then is left out


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
        try:
            subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=SECONDS)
        except subprocess.CalledProcessError as error:
            raise RuntimeError(
                f"benchmarks/gpt2.py ended with exit code {error.returncode}: {error.stderr[-500:]}"
            ) from None
        except subprocess.TimeoutExpired:
            pass  # the rungs so far are in the file
        rungs = json.loads(file.read_text())
    rates = {rung["name"]: rung["tokens_per_s"][0] for rung in rungs}
    metered = rates.get(METERED, 0.0)
    best = max((rung for rung in rungs if rung["name"] != METERED), key=lambda rung: rates[rung["name"]])
    value = {
        "MFU of 50 % or more": int((best["mfu"] or 0) >= 0.5),
        "more than 8 times the plain loop": int(rates[best["name"]] > 8 * rungs[0]["tokens_per_s"][0]),
        "meter costs less than 3 %": int(metered > 0.97 * rungs[-2]["tokens_per_s"][0]),
    }
    bars: list[Point] = [(rung["name"], *rung["tokens_per_s"]) for rung in rungs]
    return Charted(value, Chart("GPT-2 124M, one technique more in each rung", "", "tokens/s", {"tokens/s": bars}))
