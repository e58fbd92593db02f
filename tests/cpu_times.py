"""CPU seconds of the tests by file, in user code and in the kernel: `make test ARGS=--cpu-times` prints them.

Seconds of a child process count in the test that waits for its end: those of a shared server, in the last of its tests.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

USER: defaultdict[str, float] = defaultdict(float)
KERNEL: defaultdict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cpu-times", action="store_true", help="print CPU seconds by file, in user code and in the kernel"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Adds the CPU seconds of this process and its finished children to the test's file."""
    before = os.times()
    result = yield
    after = os.times()
    file = item.nodeid.split("::")[0]
    USER[file] += after.user - before.user + after.children_user - before.children_user
    KERNEL[file] += after.system - before.system + after.children_system - before.children_system
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Sends a worker process's seconds to the process that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cpu_times"] = dict(USER), dict(KERNEL)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Adds the seconds of a worker process that has ended."""
    user, kernel = getattr(node, "workeroutput", {}).get("cpu_times", ({}, {}))
    for total, seconds in ((USER, user), (KERNEL, kernel)):
        for file, worker_seconds in seconds.items():
            total[file] += worker_seconds


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints the twenty files with the most CPU seconds."""
    if not config.getoption("--cpu-times"):
        return
    terminalreporter.section("CPU seconds by file: user code, kernel")
    for file in sorted(USER, key=lambda file: -USER[file] - KERNEL[file])[:20]:
        terminalreporter.line(f"{USER[file]:8.1f} {KERNEL[file]:8.1f}  {file}")
    terminalreporter.line(f"{sum(USER.values()):8.1f} {sum(KERNEL.values()):8.1f}  all files")
