"""Who grades: threads of this machine, each with a warm sandbox of its own, or the machines of a Ray cluster."""

import logging
import queue
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rankzero.errors import UserError
from rankzero.exercises.probes.probe_client import Worker
from rankzero.grading.grade import Grade, Submission
from rankzero.grading.grader import Grader, Settings
from rankzero.grading.sandbox.sandbox_client import Shared


def run_locally(todo: Sequence[Submission], settings: Settings, jobs: int) -> Iterator[Grade]:
    """Grades on this machine, `jobs` at a time, and yields each grade when it is there.

    The threads are daemons: after Ctrl-C nothing is waited for, and a sandbox ends with the thread that started it.
    """
    waiting: queue.SimpleQueue[Submission] = queue.SimpleQueue()
    graded: queue.SimpleQueue[Grade | BaseException] = queue.SimpleQueue()
    for submission in todo:
        waiting.put(submission)

    def work(ours: Shared) -> None:
        try:
            with Grader(settings, ours) as grader:
                while True:
                    graded.put(grader.grade(waiting.get_nowait()))
        except queue.Empty:
            return
        except BaseException as error:
            graded.put(error)

    with Worker() as worker:
        ours = Shared(worker)
        threads = [threading.Thread(target=work, args=(ours,), daemon=True) for _ in range(min(jobs, len(todo)))]
        for thread in threads:
            thread.start()
        for _ in todo:
            item = graded.get()
            if isinstance(item, BaseException):
                raise item
            yield item
        for thread in threads:
            thread.join()


def run_on_ray(todo: Sequence[Submission], settings: Settings, jobs: int) -> Iterator[Grade]:
    """Grades on a Ray cluster, one grader on each of `jobs` workers; starts a local cluster where none is reachable.

    Each machine needs this repository at the same path, and bubblewrap.
    """
    try:
        import ray
        from ray.util import ActorPool
    except ImportError:
        raise UserError("--executor ray needs Ray: `pip install -e '.[ray]'` brings it.") from None
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    remote = ray.remote(num_cpus=1)(_RayGrader)
    pool = ActorPool([remote.remote(settings) for _ in range(min(jobs, len(todo)))])
    sent = [(one, one.file.read_bytes() if one.file else b"") for one in todo]
    yield from pool.map_unordered(lambda grader, item: grader.grade.remote(*item), sent)


class _RayGrader:
    """A grader in a process of Ray's, perhaps on another machine: the submission comes along."""

    def __init__(self, settings: Settings) -> None:
        self._grader = Grader(settings)

    def grade(self, submission: Submission, source: bytes) -> Grade:
        """As `Grader.grade`."""
        if submission.file is None:
            return self._grader.grade(submission)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / submission.file.name
            copy.write_bytes(source)
            return replace(self._grader.grade(replace(submission, file=copy)), submission=submission)
