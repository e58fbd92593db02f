"""Executors: grade submissions on threads of this machine, or on the machines of a Ray cluster."""

import logging
import queue
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rankzero.errors import UserError
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.grading.grade import Grade, Submission
from rankzero.grading.grader import Grader, GradingSettings


def run_locally(submissions: Sequence[Submission], settings: GradingSettings, jobs: int) -> Iterator[Grade]:
    """Grades on `jobs` threads, each with its own sandbox server. Yields each grade as soon as it is ready.

    The threads are daemons: Ctrl-C does not wait for them, and a sandbox server ends with the thread that started it.
    """
    waiting: queue.SimpleQueue[Submission] = queue.SimpleQueue()
    results: queue.SimpleQueue[Grade | BaseException] = queue.SimpleQueue()
    for submission in submissions:
        waiting.put(submission)

    def grade_waiting(trusted_client: LocalProbeClient) -> None:
        try:
            with Grader(settings, trusted_client) as grader:
                while True:
                    results.put(grader.grade(waiting.get_nowait()))
        except queue.Empty:
            return
        except BaseException as error:
            results.put(error)

    with LocalProbeClient() as client:
        number = min(jobs, len(submissions))
        threads = [threading.Thread(target=grade_waiting, args=(client,), daemon=True) for _ in range(number)]
        for thread in threads:
            thread.start()
        for _ in submissions:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            yield result
        for thread in threads:
            thread.join()


def run_on_ray(submissions: Sequence[Submission], settings: GradingSettings, jobs: int) -> Iterator[Grade]:
    """Grades on `jobs` workers of a Ray cluster; starts a local cluster where none is reachable.

    Each machine needs this repository at the same path, and bubblewrap.
    """
    try:
        import ray
        from ray.util import ActorPool
    except ImportError:
        raise UserError("--executor ray needs Ray: `pip install -e '.[ray]'` brings it.") from None
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    actor = ray.remote(num_cpus=1)(_RayGrader)
    pool = ActorPool([actor.remote(settings) for _ in range(min(jobs, len(submissions)))])
    files = [(submission, submission.file.read_bytes() if submission.file else b"") for submission in submissions]
    yield from pool.map_unordered(lambda grader, arguments: grader.grade.remote(*arguments), files)


class _RayGrader:
    """A grader in a Ray process, perhaps on another machine, to which the submission's text is sent."""

    def __init__(self, settings: GradingSettings) -> None:
        self._grader = Grader(settings)

    def grade(self, submission: Submission, source: bytes) -> Grade:
        """As `Grader.grade`."""
        if submission.file is None:
            return self._grader.grade(submission)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / submission.file.name
            copy.write_bytes(source)
            return replace(self._grader.grade(replace(submission, file=copy)), submission=submission)
