"""Grades one submission after another: probes it in its room, judges it here, and puts everything into a `Grade`."""

import datetime
import importlib.metadata
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from rankzero.curriculum import Lab, find_lab
from rankzero.errors import UserError
from rankzero.exercises.checks.escape_text import visible_report
from rankzero.exercises.checks.report import Report
from rankzero.exercises.checks.runner import check_file, exercises_of
from rankzero.exercises.probes.probe_client import Worker, WorkerError
from rankzero.grading.grade import Grade, Submission
from rankzero.grading.sandbox.sandbox import NOBODY, Host, SandboxError
from rankzero.grading.sandbox.sandbox_client import Apart, Room, Shared

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
        self._trusted: Worker | None = None

    def __enter__(self) -> "Grader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_theirs()
        self._stack.close()

    def grade(self, submission: Submission, progress: Callable[[str], None] = lambda name: None) -> Grade:
        """The grade of what was collected. A failure of the sandbox is tried again once, and then no grade."""
        lab, report, trouble, seconds = find_lab(submission.lab), None, "", 0.0
        if submission.file:
            for _ in range(2):
                try:
                    (report, seconds), trouble = self._report(lab, submission, progress), ""
                    break
                except (SandboxError, WorkerError) as error:
                    trouble = str(error)
                    self._end_theirs()
                except UserError:
                    raise
                except Exception as error:  # a file that trips the grader must not keep the class from its grades
                    trouble = f"the grader itself failed ({type(error).__name__}: {error})"
        return Grade(
            submission,
            seed=self.settings.seed,
            version=importlib.metadata.version("rankzero"),
            isolation=self.settings.isolation,
            graded_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            seconds=round(seconds, 3),
            max_points=sum(exercise.points for exercise in exercises_of(lab)),
            report=report,
            trouble=trouble,
        )

    def _report(self, lab: Lab, submission: Submission, progress: Callable[[str], None]) -> tuple[Report, float]:
        """The report, and the seconds that it took from an open room on."""
        file = submission.file
        assert file is not None
        with ExitStack() as stack:
            if self.settings.trusted:
                worker = self._trusted = self._trusted or _as_nobody() or Worker()
                copy = Path(stack.enter_context(tempfile.TemporaryDirectory())) / file.name
                copy.parent.chmod(0o755)  # nobody may not enter every folder of root's
                copy.write_bytes(file.read_bytes())
                stack.callback(worker.forget, copy)
                file, asked = copy, Apart(copy, worker, self._ours)
            else:
                if self._host is None:
                    self._host = Host([find_lab(number) for number in self.settings.labs])
                channel = stack.enter_context(self._host.room(self.settings.memory * MIB))
                room = Room(channel, file.read_bytes(), self.settings.time_limit)
                asked = Apart(file, room, self._ours)
            began = time.monotonic()
            report = check_file(lab, file, exercises_of(lab), seed=self.settings.seed, worker=asked, progress=progress)
            return replace(visible_report(report), file=file.name), time.monotonic() - began

    def _end_theirs(self) -> None:
        """Ends what runs submissions; the next one starts it again."""
        for one in (self._host, self._trusted):
            if one:
                one.__exit__(None, None, None)
        self._host = self._trusted = None


def _as_nobody() -> Worker | None:
    """Of root: a worker that is nobody. None for others, and where nobody may not run Python."""
    if os.getuid() == 0:
        with ExitStack() as stack, suppress(OSError, WorkerError):
            worker = stack.enter_context(Worker(NOBODY))
            worker.wait()
            stack.pop_all()
            return worker
    return None
