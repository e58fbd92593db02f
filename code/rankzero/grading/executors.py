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
from rankzero.grading.grade import Grade
from rankzero.grading.grader import Grader, GradingSettings
from rankzero.grading.regrade import GradingTask


def run_locally(tasks: Sequence[GradingTask], settings: GradingSettings, jobs: int) -> Iterator[Grade]:
    """Grades on `jobs` threads, each with its own sandbox server. Yields each grade as soon as it is ready.

    The threads are daemons: Ctrl-C does not wait for them, and a sandbox server ends with the thread that started it.
    """
    waiting: queue.SimpleQueue[GradingTask] = queue.SimpleQueue()
    results: queue.SimpleQueue[Grade | BaseException] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)

    def grade_waiting(trusted_client: LocalProbeClient) -> None:
        try:
            with Grader(settings, trusted_client) as grader:
                while True:
                    results.put(grader.do(waiting.get_nowait()))
        except queue.Empty:
            return
        except BaseException as error:
            results.put(error)

    with LocalProbeClient() as client:
        number = min(jobs, len(tasks))
        threads = [threading.Thread(target=grade_waiting, args=(client,), daemon=True) for _ in range(number)]
        for thread in threads:
            thread.start()
        for _ in tasks:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            yield result
        for thread in threads:
            thread.join()


def run_on_ray(tasks: Sequence[GradingTask], settings: GradingSettings, jobs: int) -> Iterator[Grade]:
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
    pool = ActorPool([actor.remote(settings) for _ in range(min(jobs, len(tasks)))])
    files = [(task, task.submission.file.read_bytes() if task.submission.file else b"") for task in tasks]
    yield from pool.map_unordered(lambda grader, arguments: grader.do.remote(*arguments), files)


class _RayGrader:
    """A grader in a Ray process, perhaps on another machine, to which the submission's text is sent."""

    def __init__(self, settings: GradingSettings) -> None:
        self._grader = Grader(settings)

    def do(self, task: GradingTask, source: bytes) -> Grade:
        """As `Grader.do`."""
        submission = task.submission
        if submission.file is None:
            return self._grader.do(task)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / submission.file.name
            copy.write_bytes(source)
            grade = self._grader.do(replace(task, submission=replace(submission, file=copy)))
            return replace(grade, submission=submission)
