"""Kill trial: a run killed by SIGKILL at random moments and started again, compared with a run that was not killed."""

import argparse
import contextlib
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from rankzero.errors import UserError
from rankzero.learn.distributed.sharded_checkpoint import newest_step_folder
from rankzero.learn.runs.options import StarterParser
from rankzero.learn.runs.plots import read_log
from rankzero.learn.runs.run_folder import new_run_folder

SECONDS = 600.0  # after which a child that prints nothing is taken for stuck
_HEADER = re.compile(r"^run +steps (\d+) to (\d+)")
_STEP = re.compile(r"^step +(\d+)/\d+  loss")


@dataclass
class Child:
    """A run of the starter in a process of its own, and what it has printed."""

    process: subprocess.Popen[str]
    forward: bool = False  # print its lines here, up to those of its end
    lines: list[str] = field(default_factory=list)
    first: int = -1  # steps trained before, as its header says; -1: no header yet
    done: int = 0  # the last step that it has printed
    began: float = 0.0  # when it printed its header
    header: threading.Event = field(default_factory=threading.Event)
    reader: threading.Thread = field(init=False)

    def read(self, stream: IO[str]) -> None:
        for line in stream:
            self.lines.append(line.rstrip())
            self.forward &= bool(line.strip())
            if self.forward:
                print(line, end="", flush=True)
            if match := _HEADER.match(line):
                self.first = self.done = int(match[1]) - 1
                self.began = time.monotonic()
                self.header.set()
            elif match := _STEP.match(line):
                self.done = int(match[1])
        self.header.set()


def kill_and_compare(
    starter: str, parser: StarterParser, options: argparse.Namespace, arguments: Sequence[str] | None, *, lab: str
) -> int:
    """Runs the starter once undisturbed, and once with `options.kills` kills; returns 0 if all losses are equal.

    Prints a row for each kill. The runs are in two folders inside a new run's folder.
    """
    try:
        if options.folder:
            raise UserError("--kills makes its own folders: leave --folder out.")
        folder = new_run_folder(options.out, lab)
        return _trial(starter, options, sys.argv[1:] if arguments is None else arguments, folder)
    except UserError as error:
        parser.error(str(error))


def _trial(starter: str, options: argparse.Namespace, arguments: Sequence[str], folder: Path) -> int:
    base = [sys.executable, "-u", starter, *arguments, "--kills", "0", "--folder"]
    whole, killed = folder / "undisturbed", folder / "killed"
    print("first without a kill")
    reference = _start([*base, str(whole)], forward=True)
    _finish(reference)
    base[-1:] = ["--print-every", "1", "--folder"]  # a step's line says that the step is done
    per_step = (time.monotonic() - reference.began) / options.steps
    draw = random.Random(options.seed)
    kills = "1 kill at a random moment" if options.kills == 1 else f"{options.kills} kills at random moments"
    print(f"\nthen with {kills}, a row for each, into {killed}/")
    print("kill   after step   resumed from   steps lost")
    child = _start([*base, str(killed)])
    for number in range(1, options.kills + 1):
        child.header.wait(SECONDS)
        if child.first < 0:
            raise UserError("a restarted run ended before its first step: " + " ".join(child.lines[-3:]))
        most = max(1, int(0.8 * (options.steps - child.first) / (options.kills + 1 - number)))
        target = child.first + draw.randrange(most)
        while child.done < target and child.process.poll() is None:
            time.sleep(0.001)
        time.sleep(draw.uniform(0.0, 2 * per_step))  # in a step, in a save, or between
        if child.process.poll() is not None:
            raise UserError(f"the run ended before kill {number}: ask for more --steps or fewer --kills.")
        kill_with_children(child.process.pid)
        child.process.wait(SECONDS)
        child.reader.join(SECONDS)
        newest = newest_step_folder(killed)
        finished = int(newest.name.removeprefix("step-")) if newest else 0
        at, child = child.done, _start([*base, str(killed)])
        child.header.wait(SECONDS)
        if child.first != finished:
            raise UserError(f"step {finished} was saved, and the restarted run says: " + " ".join(child.lines[-3:]))
        print(f"{number:>4} {at:>12} {child.first:>14} {at - child.first:>12}", flush=True)
    _finish(child)
    return _compare(whole, killed, options.steps)


def _start(command: Sequence[str], *, forward: bool = False) -> Child:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    child = Child(process, forward)
    child.reader = threading.Thread(target=child.read, args=(process.stdout,), daemon=True)
    child.reader.start()
    return child


def _finish(child: Child) -> None:
    code = child.process.wait(SECONDS)
    child.reader.join(SECONDS)
    if code:
        raise UserError(f"the run ended with exit code {child.process.returncode}: " + " ".join(child.lines[-3:]))


def kill_with_children(process_id: int) -> None:
    """Sends SIGKILL to a process and to all processes that it has started, and waits until none of them is left."""
    process = psutil.Process(process_id)
    family = [process, *process.children(recursive=True)]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(family[1:], timeout=10)


def _compare(whole: Path, killed: Path, steps: int) -> int:
    (losses, val_losses), (others, other_val_losses) = (_losses(run / "log.jsonl") for run in (whole, killed))
    print()
    if [step for step, _ in others] != list(range(1, steps + 1)):
        print(f"the log of the killed run has {len(others)} steps: not each of the {steps} steps once")
        return 1
    parting = [a[0] for a, b in zip(losses + val_losses, others + other_val_losses, strict=True) if a != b]
    if parting:
        both = f"{len(losses)} training and {len(val_losses)} validation losses"
        print(f"parted at step {parting[0]}: {len(parting)} of {both} differ")
        return 1
    print(f"equal bit for bit: {len(losses)} training losses and {len(val_losses)} validation losses")
    return 0


def _losses(log: Path) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Returns the training losses and the validation losses that a run has logged, with their steps."""
    events = read_log(log)
    validations = [(event["step"], event["val_loss"]) for event in events["eval"]]
    return [(event["step"], event["loss"]) for event in events["step"]], validations
