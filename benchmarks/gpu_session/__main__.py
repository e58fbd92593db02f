"""Runs everything that needs a GPU, in one command, and writes one file of results.

Parts, in order of worth; one that fails is a line of the report, and the others
go on:

  doctor        what this machine can run
  claims        each statement of the pages that needs a GPU, measured, with its
                spread over three runs
  labs          each starter on the GPU beside the same run on the CPU: losses,
                and the starter's own comparison; Labs 07 and 08 with one rank
                per GPU over NCCL, and with two ranks on one GPU over gloo;
                Labs 00 and 10 measure the GPU by themselves
  tests         the pytest files in tests/cuda
  measurements  rates, roofline, attention, optimizers, copies, loader, graphs,
                allocator: each with its picture
  ladder        GPT-2 124M from a plain loop to the fastest, one technique per
                rung (benchmarks/gpt2.py); the fastest step by kernels

Needs Python 3.11, torch 2.11 with CUDA, NumPy, matplotlib, typer, rich, psutil
and pytest, and threadpoolctl for Lab 00; installs and downloads nothing. Writes
gpu.json, summary.md and a picture per measurement into --out. Then, where the
repository is kept:

  rankzero claims --import OUT/gpu.json
"""

import argparse
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from gpu_session.child import TimeIsUpError, end_all
from gpu_session.parts import STARTERS_AT_ONCE, Found, Part, Settings, at_once, measurer, parts
from gpu_session.results import Outcome, Results, this_machine
from gpu_session.summary import write_summary

from rankzero.claims.toolkit.gpu import REHEARSAL
from rankzero.errors import UserError


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("rankzero gpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--out", type=Path, default=Path("runs/gpu"), help="folder for results and pictures (default: runs/gpu)")
    add("--minutes", type=float, default=8.0, help="time for all parts; what is left then is left out\n(default: 8)")
    add("--only", default="", metavar="NAME", help="only parts whose name contains NAME, such as 'lab'")
    add("--rehearse", action="store_true", help="run every part at toy size on the CPU; its values\nmean nothing")
    return parser


def check(options: argparse.Namespace) -> None:
    """UserError, before anything is written, if the session cannot run as its options say."""
    if not options.rehearse and not torch.cuda.is_available():
        raise UserError(
            f"torch {torch.__version__} sees no CUDA device: run this on a machine with a GPU, or try every part at "
            "toy size on the CPU with --rehearse."
        )
    if options.minutes <= 0:
        raise UserError(f"--minutes {options.minutes:g}: there must be some time, such as --minutes 8.")
    if (options.out / "gpu.json").exists():
        raise UserError(f"{options.out}/gpu.json exists: name another folder with --out, so that no result is lost.")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{options.out} cannot be made ({error.strerror}): name another folder with --out.") from None


def run_part(part: Part, seconds: float) -> tuple[Outcome, Found | None]:
    """Runs a part; whatever goes wrong in it becomes its outcome."""
    begin = time.monotonic()
    found = None
    try:
        found = part.run(seconds)
        status, text = found.status, found.text
    except Exception as error:
        known = isinstance(error, (TimeIsUpError, EOFError, RuntimeError))
        status, text = "failed", f"{error}" if known else f"{type(error).__name__}: {error}"
        # A module inside of a package, such as 'rankzero.claim', is a defect and no package that is missing.
        if missing := re.search(r"No module named '(\w+)'|from ([\w-]+), which is not installed", text):
            status, text = "left out", f"{missing[1] or missing[2]} is not installed"
    return Outcome(part.name, status, round(time.monotonic() - begin, 2), text, part.about), found


def run_session(options: argparse.Namespace) -> int:
    """Runs the parts and writes the results after each; returns the exit code: 1 if a part failed."""
    settings = Settings(options.out.resolve(), options.rehearse)
    results = Results(options.rehearse, this_machine())
    machine = results.machine
    print(f"{', '.join(machine.get('gpu', [machine['cpu']]))}; torch {machine['torch']}, Python {machine['python']}")
    deadline = time.monotonic() + 60 * options.minutes
    interrupted = False
    pool = ThreadPoolExecutor(STARTERS_AT_ONCE)
    chosen = at_once([part for part in parts(settings) if options.only in part.name], pool)
    if not chosen:
        raise UserError(f"no part's name contains {options.only!r}: leave --only out to run all.")
    for number, part in enumerate(chosen, 1):
        left = deadline - time.monotonic()
        if left < 1 or interrupted:
            why = "interrupted" if interrupted else f"{options.minutes:g} minutes are over"
            results.parts.append(Outcome(part.name, "left out", 0.0, why, part.about))
            continue
        try:
            outcome, found = run_part(part, left)
        except KeyboardInterrupt:
            interrupted = True
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            results.parts.append(Outcome(part.name, "left out", 0.0, "interrupted", part.about))
            continue
        results.parts.append(outcome)
        results.claims |= found.claims if found else {}
        results.write(options.out)
        print(f"{number:3}/{len(chosen)} {outcome.status:<8} {part.name:<28} {outcome.seconds:6.1f} s  {outcome.text}")
        sys.stdout.flush()
    measurer.end()
    file = results.write(options.out)
    write_summary(results, options.out)
    counts = [sum(part.status == status for part in results.parts) for status in ("passed", "failed", "left out")]
    print(f"\n{counts[0]} passed, {counts[1]} failed, {counts[2]} left out. Read {options.out / 'summary.md'}")
    print(f"Where the repository is kept: rankzero claims --import {file}")
    return 130 if interrupted else int(counts[1] > 0)


def main() -> int:
    parser = make_parser()
    options = parser.parse_args()
    if options.rehearse:
        os.environ[REHEARSAL] = "1"  # read by the processes that measure
    try:
        check(options)
        return run_session(options)
    except UserError as error:
        print(f"rankzero: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
