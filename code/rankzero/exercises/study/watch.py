"""Watch: checks the learner's file after every save; keys show a hint, a solution or the list, or end the watch."""

import contextlib
import functools
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Exercise
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.checks.report import Report
from rankzero.exercises.checks.runner import check_file, new_seed
from rankzero.exercises.study import progress
from rankzero.exercises.study import report_display as display
from rankzero.exercises.study.comparison import comparison_lines
from rankzero.exercises.study.dependencies import code_by_exercise
from rankzero.exercises.study.next_steps import next_steps, other_hints
from rankzero.exercises.study.text_lines import paragraph

KEYS = "h hint   s solution of what passes   l list   q quit   (save to check)"
Stamp = tuple[int, int]  # of a save: its time and the file's number
POLL_S = 0.1
GONE_S = 0.5  # after which a missing file counts as gone: an editor may delete the file and write it again


@dataclass
class Session:
    """One watch of one file. Each output is as wide and as high as the terminal at that moment."""

    lab: Lab
    exercises: tuple[Exercise, ...]
    file: Path
    client: LocalProbeClient
    remember: bool  # whether the points count as progress
    options: str = ""  # of the command that prints what does not fit on the screen
    seed: int = field(default_factory=new_seed)  # the same for all checks, so that the reference runs once
    report: Report | None = None
    before: dict[str, int] = field(default_factory=dict)  # points by exercise of the last file that could be loaded
    passed: Exercise | None = None  # the exercise that passed last
    code: dict[str, str] = field(default_factory=dict)  # by exercise: the code that the last report is about

    def run(self) -> None:
        """Watches until `q` is pressed."""
        actions = {"h": self.hint, "s": self.solution, "l": self.list}
        on_key = {key: functools.partial(self._answer, action) for key, action in actions.items()}
        follow(self.file, self.check, self.gone, on_key)

    def check(self) -> Stamp | None:
        """Checks the file and prints the report, with the failure to read and the keys on the last rows.

        Returns the stamp of the file that was checked; None, without a report, if the file has changed meanwhile.
        """
        screen = display.make_console()
        stamp, content = _stamp(self.file), _content(self.file)
        code = code_by_exercise(self.lab, content or b"", self.exercises)
        unchanged = [each for each in self._passing() if code.get(each.name) == self.code.get(each.name, "")]
        report = self._checked(screen, unchanged)
        if report.unusable and unchanged:  # nothing passes in a file that does not load
            report = self._checked(screen, [])
        later_stamp, later = _stamp(self.file), _content(self.file)
        if later is not None and later != content:
            self.code = {exercise.name: code[exercise.name] for exercise in unchanged}
            return None
        self.code = code
        if self.report and not self.report.unusable:
            self.before = self._points()
        self.report = report
        if self.remember:
            progress.remember(self.report, content or b"")
        points, passing = self._points(), self._passing()
        new = [exercise for exercise in passing if points[exercise.name] > self.before.get(exercise.name, 0)]
        self.passed = next(iter(new or [exercise for exercise in passing if exercise == self.passed]), None)
        screen.rule()
        sentences = next_steps(self.lab, self.report, self.exercises, keys=True)
        if sentences and new:
            sentences = [f"{new[0].name} passes: s shows the solution beside yours.", *sentences]
        steps = [paragraph(text, screen.width, style="green") for text in sentences]
        rows = screen.height - 3 - sum(map(len, steps))  # without the rule, the keys, and the row of the cursor
        display.show_on_screen(self.report, self.exercises, screen, rows, self.options)
        for lines in steps:
            display.print_lines(lines, screen)
        screen.print(KEYS, style="dim")
        return later_stamp or stamp

    def _checked(self, screen: Console, unchanged: Sequence[Exercise]) -> Report:
        """Returns the report on the file; `unchanged` exercises keep their replies."""
        changed = {check.probe for each in self.exercises if each not in unchanged for check in each.checks}
        self.client.forget(self.file, {check.probe for each in unchanged for check in each.checks} - changed)
        with screen.status("checking") as status:
            return check_file(
                self.lab,
                self.file,
                self.exercises,
                seed=self.seed,
                client=self.client,
                progress=lambda name: status.update(f"checking {name}"),
            )

    def gone(self) -> None:
        """Prints that the file is gone."""
        text = f"{self.file.name} is gone: put it back, and the watch goes on."
        display.make_console().print(text, style="yellow")

    def hint(self) -> None:
        """Prints the next hint of the first exercise without all points; if there is none, of the last that passed."""
        screen, points = display.make_console(), self._points()
        unsolved = [exercise for exercise in self.exercises if points.get(exercise.name, 0) < exercise.points]
        exercise = next(iter(unsolved), self.passed or self.exercises[-1])
        display.show_hint(exercise, progress.next_hint(self.lab, exercise), screen)

    def solution(self) -> None:
        """Prints the solution of the exercise that passed last, beside the learner's code."""
        screen = display.make_console()
        if not self.passed:
            screen.print("No exercise passes yet: then s shows its solution beside yours.")
            return
        try:
            display.print_lines(comparison_lines(self.lab, self.passed, self.file, screen.width), screen)
        except UserError as error:
            screen.print(str(error))
        else:
            display.print_paragraph(other_hints(self.lab, self.passed), screen, style="dim")

    def list(self) -> None:
        """Prints the exercises and their points."""
        display.show_list(self.exercises, self._points(), display.make_console(), self.report)

    def _answer(self, action: Callable[[], None]) -> None:
        """Prints what a key asks for, and the keys again below it."""
        action()
        display.make_console().print(KEYS, style="dim")

    def _points(self) -> dict[str, int]:
        return self.report.by_exercise() if self.report else {}

    def _passing(self) -> Sequence[Exercise]:
        points = self._points()
        return [exercise for exercise in self.exercises if points.get(exercise.name) == exercise.points]


def follow(
    file: Path,
    on_save: Callable[[], Stamp | None],
    on_gone: Callable[[], None],
    on_key: Mapping[str, Callable[[], None]],
) -> None:
    """Calls `on_save` now and after every save of `file`; `on_key[key]` when that key is pressed; returns at `q`.

    `on_save` returns the stamp of the file that it has read, or None to be called again. `on_gone` is called once
    when the file is gone. Without a terminal there are no keys: Ctrl-C ends the watch.
    """
    checked_stamp: Stamp | None = None
    last_present = time.monotonic()
    with _keys() as wait_for_key:
        while True:
            stamp = _stamp(file)
            if stamp and stamp != checked_stamp:
                checked_stamp = on_save()
            if stamp:
                last_present = time.monotonic()
            elif checked_stamp and time.monotonic() - last_present > GONE_S:
                checked_stamp = None
                on_gone()
            pressed = wait_for_key(POLL_S)
            if pressed == "q":
                return
            if pressed in on_key:
                on_key[pressed]()


def _content(file: Path) -> bytes | None:
    with contextlib.suppress(OSError):
        return file.read_bytes()
    return None


def _stamp(file: Path) -> Stamp | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yields a function that waits up to `seconds` for a key and returns the key or an empty string."""
    if not sys.stdin.isatty():

        def wait(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield wait
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)

    def read(seconds: float) -> str:
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return sys.stdin.read(1).lower() if ready else ""

    try:
        yield read
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
