"""Run with the learner's functions: the same training by the starter and by the learner, and both loss curves."""

import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankzero.curriculum import Lab, path_from_here
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.checks.runner import check_file, new_seed
from rankzero.exercises.study.starter_process import read_adapter
from rankzero.learn.runs import quiet_start
from rankzero.learn.runs.plots import plot_losses, read_log
from rankzero.learn.runs.run_folder import new_run_folder

ROWS = 10  # steps in the table, besides the step at which the curves part
NAMES = ("starter", "yours")
_STOPS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Curves:
    """The losses of two runs, by step from 1. Differences are relative to the starter's loss."""

    starter: tuple[float, ...]
    mine: tuple[float, ...]
    rounding: float  # the largest difference that another order of the same additions may make

    def difference(self, step: int) -> float:
        """Relative difference of the losses of a step; infinite where one of them is not a number."""
        starter, mine = self.starter[step - 1], self.mine[step - 1]
        difference = abs(mine - starter) / abs(starter)
        return math.inf if math.isnan(difference) else difference

    @property
    def common(self) -> range:
        """The steps that both runs took."""
        return range(1, min(len(self.starter), len(self.mine)) + 1)

    @property
    def parting(self) -> int | None:
        """The first step whose losses differ by more than rounding."""
        return next((step for step in self.common if self.difference(step) > self.rounding), None)

    @property
    def is_equal(self) -> bool:
        return self.parting is None and len(self.starter) == len(self.mine)

    def verdict(self) -> str:
        """Returns in a sentence whether the curves are equal, or where they part and by how much."""
        if self.parting:
            starter, mine = self.starter[self.parting - 1], self.mine[self.parting - 1]
            apart = f"{self.difference(self.parting):.2g} of it; rounding makes at most {self.rounding:g}"
            return (
                f"The curves part at step {self.parting}: the starter's loss is {starter:.6f}, "
                f"yours is {mine:.6f}, a difference of {apart}."
            )
        if len(self.mine) < len(self.starter):
            return (
                f"Your run ended after step {len(self.mine)} of {len(self.starter)}; up to there the curves are equal."
            )
        if self.mine == self.starter:
            return f"Equal bit for bit: the losses of all {len(self.mine)} steps."
        step = max(self.common, key=self.difference)
        largest = f"the largest difference is {self.difference(step):.1e} of the loss, at step {step}"
        return f"Equal within rounding: {largest}; another order of additions may make {self.rounding:g}."

    def table(self) -> str:
        """Returns the losses of about ROWS steps, and of the step at which the curves part."""
        steps = self.common
        shown = {*steps[:: -(-len(steps) // ROWS)], *steps[-1:], *([self.parting] if self.parting else [])}
        lines = [f"{'step':>6}{NAMES[0]:>14}{NAMES[1]:>14}{'difference':>14}"]
        for step in sorted(shown):
            row = f"{step:>6}{self.starter[step - 1]:>14.6f}{self.mine[step - 1]:>14.6f}{self.difference(step):>14.1e}"
            lines.append(row + ("  <- here they part" if step == self.parting else ""))
        return "\n".join(lines)


def used_exercises(lab: Lab) -> list[Exercise]:
    """Returns the exercises whose functions the run uses. UserError for a function of no exercise."""
    uses, exercises = read_adapter(lab).USES, exercises_of(lab)
    if unknown := set(uses) - {name for exercise in exercises for name in exercise.functions}:
        raise UserError(f"{lab.mine}: {min(unknown)} in USES is no function of an exercise: correct it.")
    return [exercise for exercise in exercises if set(uses) & set(exercise.functions)]


def check_exercises(lab: Lab, file: Path, progress: Callable[[str], None]) -> None:
    """UserError, which names the exercise, unless the exercises that the run uses pass their checks."""
    with LocalProbeClient() as client:
        for exercise in used_exercises(lab):
            how: dict[str, Any] = {"seed": new_seed(), "client": client, "progress": progress, "explain": False}
            report = check_file(lab, file, (exercise,), **how)
            if report.points < report.max_points:
                raise UserError(
                    f"{exercise.name} does not pass its checks yet: `rankzero check {lab.number} {exercise.name}` says "
                    "why, and --anyway runs your functions as they are."
                )


def run_both(lab: Lab, file: Path, arguments: Sequence[str], say: Callable[[str], None]) -> int:
    """Trains with the starter's functions, then with those of `file`; says the curves; returns the exit code.

    The exit code is 0 if the curves are equal within rounding, 1 if they part, and a run's own if that run was
    stopped or took no step. `arguments` are those that `starter_options` returns.
    """
    adapter = read_adapter(lab)
    arguments, out = _without_out(arguments)
    folder = new_run_folder(out, f"lab-{lab.number}-mine")
    losses: dict[str, tuple[float, ...]] = {}
    programs = (
        [str(lab.starter)],
        ["-m", "rankzero.exercises.study.starter_process", lab.number, str(file)],
    )
    for name, program in zip(NAMES, programs, strict=True):
        say(f"{name}: {lab.starter.name} {' '.join(arguments)}")
        code = _run([*program, *arguments, "--out", str(folder / name)], say, getattr(adapter, "PROGRESS", ()))
        losses[name] = _losses(folder / name)
        if not losses[name] or code in (130, 143) or (code and name == NAMES[0]):
            return code or 1
    curves = Curves(losses[NAMES[0]], losses[NAMES[1]], adapter.ROUNDING)
    plot_losses(losses, curves.parting).savefig(folder / "losses.png", dpi=110)
    say(f"\n{curves.table()}\n\n{curves.verdict()}\nboth curves   {path_from_here(folder / 'losses.png')}")
    return code or (0 if curves.is_equal else 1)


def starter_options(lab: Lab, arguments: Sequence[str]) -> list[str]:
    """Returns the starter's options for both runs: those of the lab's `mine.py` that `arguments` do not set, and these.

    UserError for an option that would make the runs start differently, and for a lab without a `mine.py`.
    """
    given = [argument.split("=")[0] for argument in arguments if argument.startswith("--") and argument != "--"]
    for option in ("--resume", "--checkpoint", "--folder", "--kills"):
        if option in given:
            raise UserError(f"--mine trains twice from the beginning: leave {option} out.")
    defaults, taken = [], True
    for word in read_adapter(lab).OPTIONS:
        if word.startswith("--"):  # the words after it are its values
            taken = not any(word.startswith(name) for name in given)  # argparse takes the beginning of a name, too
        defaults += [word] * taken
    return [*defaults, *arguments]


def _without_out(arguments: Sequence[str]) -> tuple[list[str], Path]:
    """Returns the options without --out, and its value."""
    rest, out = [], Path("runs")
    given = iter(arguments)
    for argument in given:
        name, _, value = argument.partition("=")
        if name == "--out":
            out = Path(value or next(given, "runs"))
        else:
            rest.append(argument)
    return rest, out


def _run(command: list[str], say: Callable[[str], None], progress: tuple[str, ...]) -> int:
    """Runs a Python command, says its lines of progress and why it stops early; returns the exit code.

    Lines of progress begin with "step ", or with one of `progress`.
    The command gets Ctrl-C from the terminal, and SIGTERM from here: it may finish its step.
    """
    command = [sys.executable, "-u", quiet_start.__file__, *command]
    begun = threading.Event()
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)  # until both processes have handlers: Ctrl-C is never a traceback
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        _signals_left_to(process, begun),
    ):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        assert process.stdout
        for line in process.stdout:
            begun.set()
            if line.startswith(("step ", *progress)):
                say(f"  {line.rstrip()}")
            elif line.startswith("Stopped by "):
                stop = line.partition(", which is saved")[0]
                say(f"\n{stop}. The curves are not compared: --mine needs two whole runs.")
    code = process.returncode
    return code if code >= 0 else 128 - code  # as a shell reports a signal


@contextmanager
def _signals_left_to(process: "subprocess.Popen[str]", begun: threading.Event) -> Iterator[None]:
    """Sends SIGTERM on to the process, and leaves Ctrl-C, which the process gets too, to the process.

    The first Ctrl-C is answered at once, since a step may take half a minute. Until the process has `begun` to print,
    it stops at once and says so itself.
    """
    answered = False

    def answer(number: int, frame: object) -> None:
        nonlocal answered
        if begun.is_set() and not answered:  # the file descriptor, because the signal may come while a line is printed
            os.write(2, b"\nCtrl-C: the run stops after its step; a second Ctrl-C stops it at once.\n")
        answered = True

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))}
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, answer)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _losses(folder: Path) -> tuple[float, ...]:
    logs = sorted(folder.glob("*/log.jsonl"))
    return tuple(event["loss"] for event in read_log(logs[0])["step"]) if logs else ()
