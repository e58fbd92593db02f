"""Grader: probes one submission in its sandbox, judges it outside, and returns its `Grade`."""

import datetime
import importlib.metadata
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rankzero.curriculum import Lab, find_lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.escape_text import escape_report
from rankzero.exercises.checks.probe_client import LocalProbeClient, ProbeClient, ProbeServerError
from rankzero.exercises.checks.report import Report
from rankzero.grading.check_on_seeds import check_on_seeds
from rankzero.grading.grade import Grade, Submission
from rankzero.grading.regrade import GradingTask, exercises_to_run, merged, stamped
from rankzero.grading.sandbox.bubblewrap import NOBODY_UID
from rankzero.grading.sandbox.sandbox_client import Sandbox, SandboxError, SandboxServer, TimeUsedUpError
from rankzero.grading.seed_pool import SeedPool

MIB = 2**20


@dataclass(frozen=True)
class GradingSettings:
    """The settings for grading a class: plain values, which can be sent to other machines."""

    labs: tuple[str, ...]
    pool: SeedPool
    time_limit: float = 60.0  # seconds of work per exercise of a submission
    memory: int = 2048  # MiB that all processes of a submission may take together
    trusted: bool = False

    @property
    def isolation(self) -> str:
        """Returns "sandbox" or "trusted"."""
        return "trusted" if self.trusted else "sandbox"


class Grader(ExitStack):
    """Grades submissions one after another with one warm sandbox server. Use it as a context.

    `trusted_client` runs references and known mistakes; a grader without one starts its own.
    """

    def __init__(self, settings: GradingSettings, trusted_client: LocalProbeClient | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.trusted_client = trusted_client or self.enter_context(LocalProbeClient())
        self._server: SandboxServer | None = None
        self._unsandboxed: LocalProbeClient | None = None  # runs submissions where settings.trusted
        self.callback(self._end_untrusted)

    def do(self, task: GradingTask) -> Grade:
        """Returns the grade that the task asks for."""
        lab = find_lab(task.submission.lab)
        if task.earlier is None:
            return self.grade(task.submission)
        grade = self.grade(task.submission, exercises=exercises_to_run(task.checks, lab))
        return merged(task.earlier, grade, task.checks, lab)

    def grade(
        self,
        submission: Submission,
        progress: Callable[[str], None] = lambda name: None,
        exercises: Sequence[Exercise] = (),
    ) -> Grade:
        """Returns the grade of a submission, on all exercises of the lab or on `exercises`.

        `progress` is called with each check's name.

        If the sandbox fails, grading is tried again once; after a second failure the grade has no report.
        """
        lab, report, trouble, seconds = find_lab(submission.lab), None, "", 0.0
        judged: dict[str, tuple[int, ...]] = {}
        seeds = self.settings.pool.of(lab.number, submission.student.student_id)
        if submission.file:
            for _ in range(2):
                try:
                    report, judged, seconds = self._report(lab, submission.file, seeds, exercises, progress)
                    trouble = ""
                    break
                except (SandboxError, ProbeServerError) as error:
                    trouble = str(error)
                    self._end_untrusted()
                except TimeUsedUpError as error:
                    trouble = str(error)
                    break
                except UserError:
                    raise
                except Exception as error:  # one file that breaks the grader must not stop the class
                    trouble = f"the grader itself failed ({type(error).__name__}: {error})"
        grade = Grade(
            submission,
            seeds=seeds,
            version=importlib.metadata.version("rankzero"),
            isolation=self.settings.isolation,
            graded_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            seconds=round(seconds, 3),
            max_points=sum(exercise.points for exercise in exercises_of(lab)),
            report=report,
            trouble=trouble,
            judged=judged,
        )
        return stamped(grade, lab)

    def _report(
        self,
        lab: Lab,
        file: Path,
        seeds: tuple[int, ...],
        exercises: Sequence[Exercise],
        progress: Callable[[str], None],
    ) -> tuple[Report, dict[str, tuple[int, ...]], float]:
        """Returns the report, the seeds of each check, and the seconds that it took once the sandbox was open."""
        with ExitStack() as stack:
            client: ProbeClient
            if self.settings.trusted:
                client = self._unsandboxed = self._unsandboxed or _client_as_nobody() or LocalProbeClient()
                copy = Path(stack.enter_context(tempfile.TemporaryDirectory())) / file.name
                copy.parent.chmod(0o755)  # the user `nobody` cannot enter all of root's folders
                copy.write_bytes(file.read_bytes())
                stack.callback(client.forget, copy)
                file = copy
            else:
                if self._server is None:
                    self._server = SandboxServer([find_lab(number) for number in self.settings.labs])
                opened = partial(self._server.sandbox, self.settings.memory * MIB)
                client = Sandbox(opened, file.read_bytes(), self.settings.time_limit)
            began = time.monotonic()
            report, judged = check_on_seeds(
                lab,
                file,
                exercises or exercises_of(lab),
                seeds,
                client=client,
                trusted_client=self.trusted_client,
                progress=progress,
            )
            return replace(escape_report(report), file=file.name), judged, time.monotonic() - began

    def _end_untrusted(self) -> None:
        """Ends the processes that run submissions; the next submission starts them again."""
        for process in (self._server, self._unsandboxed):
            if process:
                process.__exit__(None, None, None)
        self._server = self._unsandboxed = None


def _client_as_nobody() -> LocalProbeClient | None:
    """Returns a client of the user `nobody`; None if this user is not root, or if `nobody` cannot run Python."""
    if os.getuid() == 0:
        with ExitStack() as stack, suppress(OSError, ProbeServerError):
            client = stack.enter_context(LocalProbeClient(NOBODY_UID))
            client.wait()
            stack.pop_all()
            return client
    return None
