"""The parts of a GPU session, in order of worth: what each runs, and for how long at most."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu_session.child import Child, TimeIsUpError

from rankzero.claims.claim import Claim
from rankzero.claims.registry import all_claims
from rankzero.curriculum import Lab, all_labs
from rankzero.learn.runs.plots import read_log

CLAIM_S, LADDER_S, STARTER_S, TESTS_S = 90.0, 260.0, 90.0, 120.0  # limits on a machine with a data center's GPU
LADDER = ("gpt2-ladder", "gpt2-kernels")
MARGIN_S = 5.0  # which a claim's own program is given less than the claim, so that its results so far are read
TRAINING = ("--steps", "20", "--eval-every", "20")
# In a rehearsal, options of starters that do not train one GPT for --steps, by the lab's number.
SHORT = {
    "00": ("--seconds", "0.001", "--max-width", "64", "--max-mib", "1"),
    "01": ("--layers", "1", "--heads", "2", "--hidden-dim", "32", "--seq-len", "16"),
    "10": ("--epochs", "1", "--merges", "0", "--read-ms", "0", "--side", "8", "--batch-size", "8"),
    "11": ("--steps", "2", "--backend", "aot_eager"),
    "15": ("--trials", "2", "--tokens", "4096", "--block-size", "8", "--layers", "1", "--hidden-dim", "16"),
}
KEPT = {"00": ("--replace",)}  # the session keeps its rates also where the machine is busy, with a note
SMALL = ("--layers", "1", "--hidden-dim", "32", "--heads", "2", "--block-size", "16")  # in a rehearsal
UNEQUAL = re.compile(r".*(?:NOT EQUAL|UNEQUAL).*")  # what a starter prints where two of its results differ
STARTERS_AT_ONCE = max(2, (os.cpu_count() or 1) // 4)
# Two runs of a starter share a slot. Without a limit each of them would start a thread per core.
THREADS = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // (2 * STARTERS_AT_ONCE)))}
APART = {"first": 1e-2, "last": 0.1}  # in nats; a run in 16 bits differs from fp32 by that much


@dataclass(frozen=True)
class Found:
    """The outcome of a part: passed, failed or left out. `claims` holds what measure_claims.py printed, by slug."""

    status: str
    text: str
    claims: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Part:
    """A part of the session. `run` takes the seconds that are left at most. Parts that time nothing run at once."""

    name: str
    about: str
    run: Callable[[float], Found]
    times_nothing: bool = False


@dataclass(frozen=True)
class Settings:
    """Settings that all parts share."""

    out: Path
    rehearsal: bool

    @property
    def device(self) -> str:
        """The device's name for --device."""
        return "cpu" if self.rehearsal else "cuda"


def parts(settings: Settings) -> Iterator[Part]:
    """Yields the parts in order of worth."""
    by_slug = {slug: claim for slug, claim in all_claims().items() if "cuda" in claim.needs}
    exact = [slug for slug in by_slug if not slug.startswith("gp")]
    measurements = [slug for slug in by_slug if slug.startswith("gpu-")]
    yield Part("doctor", "what this machine can run", doctor)
    yield from (_claim_part(slug, by_slug[slug]) for slug in exact)
    for lab in all_labs():
        source = lab.starter.read_text(encoding="utf-8")
        if "training_parser(" in source or "add_model_options(" in source:
            yield from starters(lab, settings)
        elif '"--device"' in source:
            yield measuring_starter(lab, settings)
    yield Part("tests", "the pytest files in tests/cuda", lambda seconds: tests(settings, seconds))
    yield from (_claim_part(slug, by_slug[slug]) for slug in (*measurements, *LADDER))


def at_once(parts: list[Part], pool: ThreadPoolExecutor) -> list[Part]:
    """Returns the parts; the first that times nothing, when it runs, starts all others of its kind too."""
    futures: dict[str, Future[Found]] = {}
    together = [part for part in parts if part.times_nothing]

    def run(part: Part, seconds: float) -> Found:
        if not futures:
            futures.update({other.name: pool.submit(other.run, seconds) for other in together})
        return futures[part.name].result()

    return [replace(part, run=partial(run, part)) if part.times_nothing else part for part in parts]


# --------------------------------------------------------------------------------------------------------------- doctor
def doctor(seconds: float) -> Found:
    """Passes if no finding is a problem; the text is what it says of the GPU."""
    with Child([sys.executable, "-m", "rankzero", "doctor", "--json"]) as child:
        findings = json.loads(child.output(min(seconds, 60.0), exit_codes=(0, 1)))
    problems = [finding["text"] for finding in findings if finding["verdict"] == "problem"]
    gpu = next(finding["text"] for finding in findings if finding["subject"] == "GPU")
    return Found("failed" if problems else "passed", "; ".join(problems) or gpu, {})


# --------------------------------------------------------------------------------------------------------------- claims
def _claim_part(slug: str, claim: Claim) -> Part:
    limit = LADDER_S if slug in LADDER else CLAIM_S
    return Part(slug, claim.statement, lambda seconds: measure_claim(slug, min(seconds, limit)))


class Measurer:
    """The process that measures claims, one per line of its input; it starts again after it was killed."""

    def __init__(self) -> None:
        self._child: Child | None = None

    def measure(self, slug: str, seconds: float) -> dict[str, Any]:
        """Returns the line that measure_claims.py prints for a claim. TimeIsUpError after `seconds`."""
        if self._child is None:
            self._child = Child([sys.executable, "-m", "gpu_session.measure_claims"])
        try:
            self._child.send(f"{slug} {max(1.0, seconds - MARGIN_S)}")
            return dict(json.loads(self._child.line(seconds)))
        except (TimeIsUpError, EOFError, OSError):
            self.end()
            raise

    def end(self) -> None:
        """Ends the process."""
        if self._child:
            self._child.end()
            self._child = None


measurer = Measurer()


def measure_claim(slug: str, seconds: float) -> Found:
    """Passes if the claim's value is within its tolerance. In a rehearsal it passes if the claim can be measured."""
    line = measurer.measure(slug, seconds)
    if line.get("error"):
        if line["rehearsal"] and re.search("not compiled with CUDA|Found no NVIDIA driver", line["error"]):
            return Found("left out", "it asks CUDA's own allocator, so it is not rehearsed", {})
        measurer.end()  # an error of CUDA may last as long as its process
        return Found("failed", line["error"], {slug: line})
    text = ", ".join(f"{name} {value}" if name else f"{value}" for name, value in _named(line["measured"]))
    return Found("passed" if line["holds"] or line["rehearsal"] else "failed", text, {slug: line})


def _named(value: Any) -> list[tuple[str, str]]:
    values = value if isinstance(value, dict) else {"": value}
    return [(name, f"{number:.6g}" if isinstance(number, float) else f"{number}") for name, number in values.items()]


# ------------------------------------------------------------------------------------------------------------- starters
def starters(lab: Lab, settings: Settings) -> Iterator[Part]:
    """Yields the runs of a lab's starter: one process; or one rank per GPU over NCCL, and two ranks on one GPU."""
    gpus = max(1, torch.cuda.device_count())
    shared = "cpu" if settings.rehearsal else "cuda:0"
    runs = {"": (settings.device, 0)}
    if "ranks" in lab.needs:
        runs = {f" on {gpus} rank{'s' * (gpus > 1)}": (settings.device, gpus), " on 2 ranks over gloo": (shared, 2)}
    for name, (device, ranks) in runs.items():
        yield Part(
            f"lab {lab.number}{name}",
            f"{lab.starter.name} for 20 steps, its losses beside the CPU's",
            lambda seconds, device=device, ranks=ranks: run_starter(lab, settings, device, ranks, seconds),  # type: ignore[misc]
            times_nothing=True,
        )


def measuring_starter(lab: Lab, settings: Settings) -> Part:
    """Returns the run of a starter that times the device, and so runs alone; its last lines are the outcome's text."""

    def run(seconds: float) -> Found:
        command = [sys.executable, str(lab.starter), "--device", settings.device]
        command += [*(SHORT.get(lab.number, ()) if settings.rehearsal else ()), *KEPT.get(lab.number, ())]
        command += ["--out", str(settings.out / "runs")]
        with Child(command, RANKZERO_MACHINE=str(settings.out / "machine.json")) as child:
            output = output_of_starter(child, min(seconds, STARTER_S))
        (settings.out / f"{lab.slug}.txt").write_text(output, encoding="utf-8")
        return Found("passed", f"ran to its end; its output is in {lab.slug}.txt", {})

    return Part(f"lab {lab.number}", f"{lab.starter.name} measures the device", run)


def output_of_starter(child: Child, seconds: float) -> str:
    """Returns what a starter prints. RuntimeError with its line on unequal results, or with its last errors."""
    output = child.output(seconds, exit_codes=(0, 1))
    if unequal := UNEQUAL.search(output):
        raise RuntimeError(unequal[0].strip())
    if child.exit_code:
        raise RuntimeError(f"exit code {child.exit_code}: {child.errors()}")
    return output


def run_starter(lab: Lab, settings: Settings, device: str, ranks: int, seconds: float) -> Found:
    """Passes if the starter ends well on the device, says nowhere that results are unequal, and, where it trains, has
    the losses of the same run on the CPU: the first to 1e-2 nats, the last to 0.1."""
    trains = "training_parser(" in lab.starter.read_text(encoding="utf-8")
    command = [sys.executable, str(lab.starter)]
    if ranks:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
        command += ["--nproc-per-node", str(ranks), str(lab.starter)]
    short = SMALL if trains else SHORT.get(lab.number, ())
    options = [*(TRAINING if trains else ()), *(short if settings.rehearsal else ())]
    folders = {
        name: settings.out / "runs" / f"{lab.number}-{ranks}-{name}" for name in (device.replace(":", ""), "cpu")
    }
    children = [
        Child([*command, *options, "--device", name, "--out", str(folder)], **THREADS)
        for name, folder in zip((device, "cpu"), folders.values(), strict=False)
    ]
    try:
        deadline = time.monotonic() + min(seconds, STARTER_S)
        for child in children:
            output_of_starter(child, max(0.0, deadline - time.monotonic()))
    finally:
        for child in children:
            child.end()
    if not trains:
        return Found("passed", "ran to its end", {})
    logs = [next(iter(sorted(folder.rglob("log.jsonl"))[::-1])) for folder in folders.values()]
    losses = [[event["loss"] for event in read_log(log)["step"]] for log in logs]
    first, last = (abs(losses[0][place] - losses[-1][place]) for place in (0, -1))
    same = first <= APART["first"] and last <= APART["last"]
    text = f"loss {losses[0][0]:.4f} to {losses[0][-1]:.4f}; from the CPU's run by {first:.1e} and {last:.1e} nats"
    return Found("passed" if same else "failed", text, {})


# ---------------------------------------------------------------------------------------------------------------- tests
def tests(settings: Settings, seconds: float) -> Found:
    """Passes if pytest passes; on the CPU every test of tests/cuda is skipped."""
    command = [sys.executable, "-m", "pytest", "-q", "--override-ini", "addopts=", "--confcutdir", "tests/cuda"]
    command += ["--import-mode=importlib", "-p", "no:cacheprovider", "-rs", "tests/cuda"]
    with Child(command) as child:
        output = child.output(min(seconds, TESTS_S), exit_codes=(0, 1))
    (settings.out / "pytest.txt").write_text(output, encoding="utf-8")
    failed = re.findall(r"^FAILED (.*)", output, re.MULTILINE)
    return Found("failed" if failed else "passed", "; ".join(failed) or output.strip().splitlines()[-1], {})
