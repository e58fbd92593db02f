"""Verdicts of a run of tests: kept in the folder RANKZERO_VERDICTS, a file per run, and printed as one block.

    python tests/verdicts.py FOLDER

prints each failed test with the first line of its error, each flaky test, which passed at its second try, with that of
its first try, the ten slowest tests, and the tests and seconds of each run.
"""

import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

FOLDER = os.environ.get("RANKZERO_VERDICTS")
WIDTH = 200  # characters of an error


class Verdicts:
    """The outcomes and seconds of the tests of one run."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.passed = 0
        self.errors: dict[str, str] = {}  # of tests that failed
        self.first_errors: dict[str, str] = {}  # of tests that were run again
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes the outcome of one phase of a test."""
        self.seconds[report.nodeid] += report.duration
        if str(report.outcome) == "rerun":  # of pytest-rerunfailures
            self.first_errors[report.nodeid] = first_line(report)
        elif report.failed:
            self.errors[report.nodeid] = first_line(report)
        self.passed += report.passed and report.when == "call"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes a file that could not be read."""
        if report.failed:
            self.errors[report.nodeid] = first_line(report)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Writes the verdicts of the run, which its marks and folders name."""
        if FOLDER and not hasattr(session.config, "workerinput"):
            kind = f"{session.config.option.markexpr}: {' '.join(session.config.args)}"
            verdicts = {
                "run": kind,
                "exit code": int(exitstatus),
                "passed": self.passed,
                "seconds": time.monotonic() - self.start,
                "failed": self.errors,
                "flaky": {test: error for test, error in self.first_errors.items() if test not in self.errors},
                "slowest": sorted(self.seconds.items(), key=lambda item: -item[1])[:10],
            }
            Path(FOLDER, f"{time.time_ns()}.json").write_text(json.dumps(verdicts))


def first_line(report: Any) -> str:
    """Returns the first line of a report's error."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr).strip()
    return str(text.splitlines()[0])[:WIDTH] if text else "no text"


def block(runs: list[dict[str, Any]]) -> str:
    """Returns the text about the runs of tests in the order in which they ended."""
    lines = ["tests and seconds of each run:"]
    for run in runs:
        counts = f"{run['passed']} passed, {len(run['failed'])} failed, {len(run['flaky'])} flaky"
        lines.append(f"  {run['seconds']:6.0f} s  {counts} (exit code {run['exit code']})  {run['run']}")
    slowest = sorted((tuple(test) for run in runs for test in run["slowest"]), key=lambda test: -test[1])[:10]
    lines += ["slowest tests:", *(f"  {seconds:6.1f} s  {test}" for test, seconds in slowest)]
    for kind in ("flaky", "failed"):
        tests = {test: error for run in runs for test, error in run[kind].items()}
        lines += [f"{kind} tests: {len(tests) or 'none'}", *(f"  {test}: {error}" for test, error in tests.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    files = sorted(Path(sys.argv[1]).glob("*.json"))
    print(block([json.loads(file.read_text(encoding="utf-8")) for file in files]) if files else "no test was run")
