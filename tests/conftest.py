"""How the tests are shared out among processes: by file, and where a file tries every lab, by lab."""

import os
import re

import pytest
from xdist.scheduler import LoadScopeScheduling

from rankzero.learn.machine.lazy_dynamo import import_dynamo_lazily

import_dynamo_lazily()  # for the tests that train in the process of pytest


class ByLab(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of one file in one process, which then starts its worker or its ranks once; a lab's likewise."""

    def _split_scope(self, nodeid: str) -> str:
        lab = re.search(r"\[(lab-)?(\d\d)-", nodeid)
        return f"{super()._split_scope(nodeid)}, lab {lab[2]}" if lab else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByLab:
    """xdist asks for its scheduler."""
    return ByLab(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: a test that waits for the processes that it started leaves its core."""
    return (os.cpu_count() or 1) + 1
