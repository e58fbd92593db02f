"""Pytest setup: the distribution of tests among processes, and the client and sandbox that a process's tests share."""

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import clean_environment
import cpu_times
import draft_labs
import pytest
import verdicts
import warm_process
from xdist.scheduler import LoadScopeScheduling

from rankzero.learn.machine.cores import usable_cores
from rankzero.learn.machine.lazy_dynamo import import_dynamo_lazily

if TYPE_CHECKING:
    from rankzero.exercises.checks.probe_client import LocalProbeClient
    from rankzero.grading.canaries import Canaries
    from rankzero.grading.grader import Grader

clean_environment.clean()
os.environ["RANKZERO_MACHINE"] = "/dev/null/machine.json"  # tests read no rates that Lab 00 has measured here
warm_process.install()
import_dynamo_lazily()  # for the tests that train in the process of pytest


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Adds `--cpu-times`."""
    pluginmanager.register(cpu_times)
    pluginmanager.register(draft_labs)  # here, so that it is asked about solutions/ too
    pluginmanager.register(verdicts.Verdicts())


LONGEST = ("sandbox", "tests/test_checking.py", "tests/test_exercise_commands.py")


class ByLab(LoadScopeScheduling):  # type: ignore[misc]
    """Runs a file's tests in one process, or one process per lab in it, and all tests with a sandbox in one process."""

    def _split_scope(self, nodeid: str) -> str:
        if re.match(r"tests/test_grading_(attacks|class|record|sandbox|seeds|systems)", nodeid):
            return "sandbox"
        lab = re.search(r"\[(lab-)?(\d\d)-", nodeid)
        return f"{super()._split_scope(nodeid)}, lab {lab[2]}" if lab else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: object) -> None:
        """Takes the next tests; those that take longest come first, so that no process is left with them at the end."""
        for scope in reversed(LONGEST):
            if scope in self.workqueue:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByLab:
    """Returns xdist's scheduler."""
    return ByLab(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Returns two more than the usable cores, at most four: tests that wait for their processes leave cores idle."""
    return min(usable_cores() + 2, 4)


@pytest.fixture(scope="session")
def client() -> "Iterator[LocalProbeClient]":
    """A warm process for probes, one per process of pytest."""
    from rankzero.exercises.checks.probe_client import LocalProbeClient

    with warm_process.cold_starts():  # a warm process has imported more than the server, so its forks are slower
        running = LocalProbeClient()
    with running:
        yield running


@pytest.fixture(scope="session")
def canaries() -> "Iterator[Canaries]":
    """Canaries that no submission may reach; they exist before the sandbox server starts."""
    from rankzero.grading.canaries import Canaries

    with Canaries() as canaries:
        yield canaries


@pytest.fixture(scope="session")
def shared_grader(canaries: "Canaries") -> "Iterator[Grader]":
    """A grader whose sandbox server and trusted client are warm, for every lab; tests set its `settings`."""
    from rankzero.curriculum import all_labs, find_lab
    from rankzero.grading.grade import Student, Submission
    from rankzero.grading.grader import Grader, GradingSettings
    from rankzero.grading.seed_pool import SeedPool

    with Grader(GradingSettings(tuple(lab.number for lab in all_labs()), SeedPool(fixed=(11,)))) as grader:
        grader.grade(Submission(Student("first"), "02", find_lab("02").reference))
        yield grader


@pytest.fixture
def grader(shared_grader: "Grader") -> "Iterator[Grader]":
    """The shared grader with its first settings."""
    settings = shared_grader.settings
    yield shared_grader
    shared_grader.settings = settings
