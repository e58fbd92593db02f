"""Grades one submission after another: probes it in its room, judges it here, and puts everything into a `Grade`."""

import datetime
import importlib.metadata
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType

from rankzero.curriculum import Lab, find_lab
from rankzero.exercises.client import Worker
from rankzero.exercises.report import Report
from rankzero.exercises.runner import check_file, exercises_of
from rankzero.grading.grade import Grade, Submission
from rankzero.grading.sandbox import Host, SandboxError
from rankzero.grading.sandboxed import Apart, Room, Shared

MIB = 2**20


@dataclass(frozen=True)
class Settings:
    """How a class is graded; the same for all of it, and plain, so that it can be sent to other machines."""

    labs: tuple[str, ...]
    seed: int
    time_limit: float = 120.0  # seconds for one submission to one lab
    memory: int = 2048  # MiB that all processes of a submission may take together
    trusted: bool = False

    @property
    def isolation(self) -> str:
        """What stands between a submission and this machine."""
        return "trusted" if self.trusted else "sandbox"


class Grader:
    """Holds a warm sandbox. Use it as a context. `ours` asks references and known-wrong solutions."""

    def __init__(self, settings: Settings, ours: Shared | None = None) -> None:
        self.settings = settings
        self._stack = ExitStack()
        self._ours = ours or Shared(self._stack.enter_context(Worker()))
        self._host: Host | None = None

    def __enter__(self) -> "Grader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_host()
        self._stack.close()

    def grade(self, submission: Submission, progress: Callable[[str], None] = lambda name: None) -> Grade:
        """The grade of what was collected. A failure of the sandbox is tried again once, and then no grade."""
        lab, began = find_lab(submission.lab), time.monotonic()
        report, trouble = None, ""
        if submission.file:
            for _ in range(2):
                try:
                    report, trouble = self._report(lab, submission, progress), ""
                    break
                except SandboxError as error:
                    trouble = str(error)
                    self._end_host()
        return Grade(
            submission,
            seed=self.settings.seed,
            version=importlib.metadata.version("rankzero"),
            isolation=self.settings.isolation,
            graded_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - began, 3),
            max_points=sum(exercise.points for exercise in exercises_of(lab)),
            report=report,
            trouble=trouble,
        )

    def _report(self, lab: Lab, submission: Submission, progress: Callable[[str], None]) -> Report:
        file = submission.file
        assert file is not None
        with ExitStack() as stack:
            if self.settings.trusted:
                asked: Apart | Shared = self._ours
                stack.callback(self._ours.forget, file)
            else:
                if self._host is None:
                    self._host = Host([find_lab(number) for number in self.settings.labs])
                channel = stack.enter_context(self._host.room(self.settings.memory * MIB))
                room = Room(channel, file.read_bytes(), self.settings.time_limit)
                asked = Apart(file, room, self._ours)
            report = check_file(lab, file, exercises_of(lab), seed=self.settings.seed, worker=asked, progress=progress)
            return replace(report, file=file.name)

    def _end_host(self) -> None:
        if self._host:
            self._host.__exit__(None, None, None)
        self._host = None
