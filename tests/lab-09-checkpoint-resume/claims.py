"""Claims of labs/lab-09-checkpoint-resume.md."""

import contextlib
import functools
import io
import json
import re
import statistics
import tempfile
import unittest.mock
from pathlib import Path
from typing import Any

from rankzero.claims.chart import Chart, Charted
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.starters import SIZES, starter
from rankzero.learn.data.epoch_sampler import EpochSampler
from rankzero.learn.distributed.sharded_checkpoint import newest_step_folder, read_folder
from rankzero.learn.models.gpt import GPT, GPTConfig
from rankzero.learn.runs.plots import read_log
from rankzero.ledger.interruptions import young

DEFAULT = ("--device=cpu", "--ranks=2", "--print-every=1")


def run(folder: Path, *arguments: str, **replaced: Any) -> str:
    """Runs the starter in `folder`, with functions of its own `replaced`; returns what it prints."""
    module, printed = starter("09"), io.StringIO()
    with (
        unittest.mock.patch.multiple(module, LAB=module.LAB, **replaced),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        module.main([*arguments, "--folder", str(folder)])
    return printed.getvalue()


def losses(folder: Path) -> list[tuple[int, float]]:
    return [(event["step"], event["loss"]) for event in read_log(folder / "log.jsonl")["step"]]


@claim(
    "lab-09-ten-kills",
    "10 kills of all processes at random moments lose no finished checkpoint and change none of 120 losses.",
    expected=True,
    unit="",
)
def ten_kills() -> bool:
    """Runs the starter's --kills 10 on two ranks: it compares each restart with the newest folder, and all losses."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(printed):
        arguments = [*SIZES, "--steps=120", "--eval-every=4", "--kills=10", "--out", name]
        code = starter("09").main(arguments)
    rows = re.findall(r"^ +\d+ +\d+ +\d+ +\d+$", printed.getvalue(), re.MULTILINE)
    return code == 0 and len(rows) == 10 and "equal bit for bit: 120 training losses" in printed.getvalue()


@functools.cache
def default_saves(*options: str) -> dict[str, float]:
    """Medians over the saves of a run of the default model: milliseconds of waiting, and bytes of a checkpoint."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        run(folder, *DEFAULT, "--steps=64", "--eval-every=8", *options)
        stalls = [event["stall_ms"] for event in read_log(folder / "log.jsonl")["save"]]
        newest = newest_step_folder(folder)
        assert newest is not None
        return {"stall": statistics.median(stalls[1:]), "bytes": sum(file.stat().st_size for file in newest.iterdir())}


@claim(
    "lab-09-bytes-per-parameter",
    "A checkpoint has {expected:.1f} bytes per parameter: 4 of weights, 8 of AdamW's averages, 4 of averaged weights, "
    "and the indexes of two ranks' files.",
    expected=16.7,
    tolerance=0.1,
    unit="bytes per parameter",
)
def bytes_per_parameter() -> float:
    """Adds up the files of a checkpoint of the default run, and divides by the model's parameters."""
    return default_saves()["bytes"] / GPT(GPTConfig(vocab_size=96)).parameter_count()


@claim(
    "lab-09-same-bytes",
    "A save in the background writes the same bytes as a save that training waits for.",
    expected=True,
    unit="",
)
def same_bytes() -> bool:
    """Compares the digests of both ranks' files of two runs, at step 12 of a small GPT on two ranks."""
    digests = []
    with tempfile.TemporaryDirectory() as name:
        for option in ((), ("--sync-save",)):
            folder = Path(name) / f"run{len(option)}"
            run(folder, *SIZES, "--steps=12", "--eval-every=3", *option)
            facts = read_folder(folder / "step-000012", settings=starter("09").LAB_SETTINGS)
            digests.append({name: value for name, value in facts["sha256"].items() if name.endswith(".distcp")})
    return len(digests[0]) == 2 and digests[0] == digests[1]


@claim(
    "lab-09-another-number-of-ranks",
    "Without dropout, a run that continues on 3 ranks after 2 has losses that differ by less than 1e-5.",
    expected=True,
    unit="",
)
def another_number_of_ranks() -> bool:
    """Trains 12 steps on two ranks, and 6 on two and 6 on three; compares the losses of a small GPT."""
    sizes = (*SIZES, "--dropout=0", "--eval-every=6")
    with tempfile.TemporaryDirectory() as name:
        whole, changed = Path(name) / "whole", Path(name) / "changed"
        run(whole, *sizes, "--steps=12")
        run(changed, *sizes, "--steps=6")
        run(changed, *sizes, "--steps=12", "--ranks=3")
        pairs = list(zip(losses(whole), losses(changed), strict=True))
    return len(pairs) == 12 and all(a[0] == b[0] and abs(a[1] - b[1]) < 1e-5 for a, b in pairs)


def without_position(*arguments: Any) -> None:
    """The starter's `restore`, whose sampler stays at the beginning."""
    *models, sampler = arguments
    beginning = sampler.state_dict()
    starter("09").restore(*models, sampler)
    sampler.load_state_dict(beginning)


@claim(
    "lab-09-position-forgotten",
    "A run that resumes from step 50 without its position in the data has other losses from step {expected} on.",
    expected=51,
    unit="",
)
def position_forgotten() -> Charted:
    """Trains the default model for 100 steps; then from its checkpoint of step 50, with and without the position."""
    with tempfile.TemporaryDirectory() as name:
        folders = {key: Path(name) / key for key in ("no kill", "position restored", "position forgotten")}
        for key, folder in folders.items():
            if key != "no kill":
                run(folder, *DEFAULT, "--steps=50", "--eval-every=50")
            replaced = {"restore": without_position} if key == "position forgotten" else {}
            run(folder, *DEFAULT, "--steps=100", "--eval-every=50", **replaced)
        lines = {key: losses(folder) for key, folder in folders.items()}
    assert lines["no kill"] == lines["position restored"]
    parting = [a[0] for a, b in zip(lines["no kill"], lines["position forgotten"], strict=True) if a != b]
    points = {key: [(float(step), loss, loss, loss) for step, loss in line] for key, line in lines.items()}
    return Charted(parting[0], Chart("Going on from step 50", "step", "loss, nats per token", points))


@claim(
    "lab-09-drawn-twice",
    "100 steps of 12 windows draw {expected[right]} windows; going on from step 50 without the position draws "
    "{expected[forgotten]}, each twice.",
    expected={"right": 1200, "forgotten": 600},
    unit="windows",
)
def drawn_twice() -> dict[str, float]:
    """Counts the different windows that the sampler draws of the 6,541 of the embedded text."""
    whole, again = EpochSampler(6541, seed=0), EpochSampler(6541, seed=0)
    right = {number for _ in range(100) for number in whole.next(12).tolist()}
    forgotten = {number for _ in range(50) for number in again.next(12).tolist()}
    return {"right": len(right), "forgotten": len(forgotten)}


@claim(
    "lab-09-flipped-bit",
    "A run whose newest checkpoint has one flipped bit continues from the checkpoint before it, with the same losses.",
    expected=True,
    unit="",
)
def flipped_bit() -> bool:
    """Flips a bit in the middle of rank 1's file of step 8 and continues to step 12, on two ranks with a small GPT."""
    sizes = (*SIZES, "--eval-every=4")
    with tempfile.TemporaryDirectory() as name:
        whole, damaged = Path(name) / "whole", Path(name) / "damaged"
        run(whole, *sizes, "--steps=12")
        run(damaged, *sizes, "--steps=8")
        file = damaged / "step-000008" / "__1_0.distcp"
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        said = run(damaged, *sizes, "--steps=12")
        facts = json.loads((damaged / "step-000012" / "run.json").read_text())
        return "the run continues from step 4" in said and facts["step"] == 12 and losses(whole) == losses(damaged)


@claim(
    "lab-09-stall",
    "A save in the background makes training wait for less than half as long as a save that training waits for.",
    expected=True,
    unit="",
)
def stall() -> Charted:
    """Saves the default model 8 times each way on two ranks, with 8 steps between; compares the median waits."""
    waited = {
        "background": default_saves()["stall"],
        "waiting": default_saves("--sync-save")["stall"],
    }
    lines = {name: [(name, value, value, value)] for name, value in waited.items()}
    ratio = waited["background"] / waited["waiting"]
    return Charted(ratio < 0.5, Chart("Training waits for a save", "", "ms", lines))


@claim(
    "lab-09-youngs-interval",
    "With 10,000 s between failures, Young's interval is {expected[5]:.0f} s for a save of 5 s, and "
    "{expected[0.05]:.0f} s for one of 0.05 s.",
    expected={"5": 316.23, "0.05": 31.62},
    tolerance=0.01,
    unit="s",
    source="[Young 1974](https://doi.org/10.1145/361147.361115)",
)
def youngs_interval() -> dict[str, float]:
    """Computes the root of twice the seconds of a save times the seconds between failures."""
    return {name: young(float(name), 10_000) for name in ("5", "0.05")}
