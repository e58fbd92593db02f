"""Changes to each lab's reference solution: those that break it lose points, whoever made them.

Two kinds. *Hurried* ones are what somebody in a hurry writes. *Automatic* ones are made from the reference by the
dozen: a line left out, two swapped, an operator turned. A lab's `changes.py` holds the first, and names those of the
second that change nothing a check should notice. It also holds what other people write who are right::

    HURRIED = {"what is wrong": ("exercise", "what the reference has", "what stands there instead")}
    RIGHT = {"in what style": ("exercise", "what the reference has", "what stands there instead")}
    EQUIVALENT = {"why it changes nothing": ("function: what was changed",)}
"""

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from mutants import mutants

from rankzero.curriculum import Lab, all_labs
from rankzero.exercises.checks.report import Report
from rankzero.exercises.checks.runner import check_file, exercises_of
from rankzero.exercises.probes.loader import load
from rankzero.exercises.probes.probe_client import Worker

THOROUGH = "RANKZERO_SEEDS" in os.environ  # `make prove`: operators turned too, and more seeds
LABS = [lab for lab in all_labs() if lab.checks.exists()]


def changes(lab: Lab) -> ModuleType:
    return load(lab.checks.with_name("changes.py"))


HURRIED = [(lab, what) for lab in LABS for what in changes(lab).HURRIED]
RIGHT = [(lab, what) for lab in LABS for what in getattr(changes(lab), "RIGHT", {})]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as running:
        yield running


def check(lab: Lab, source: str, function: str, seed: int, folder: Path, worker: Worker) -> Report:
    """Checks `source` on the exercise of that name, or that has this function."""
    file = folder / "exercises.py"
    file.write_text(source)
    worker.forget(file)
    chosen = tuple(one for one in exercises_of(lab) if function in (one.name, *one.functions))
    return check_file(lab, file, chosen or exercises_of(lab), seed=seed, worker=worker, explain=False)


@pytest.mark.parametrize(("lab", "what"), HURRIED, ids=lambda value: getattr(value, "number", value))
def test_a_hurried_answer_does_not_get_all_points(tmp_path: Path, worker: Worker, lab: Lab, what: str) -> None:
    exercise, old, new = changes(lab).HURRIED[what]
    source = lab.reference.read_text()
    assert old in source
    for seed in range(5 if THOROUGH else 1 if "ranks" in lab.needs else 2):
        report = check(lab, source.replace(old, new), exercise, seed, tmp_path, worker)
        assert report.unusable == ""
        assert all(result.status in ("pass", "fail", "error", "skipped") for result in report.results)
        assert report.points < report.max_points, f"seed {seed}"


@pytest.mark.parametrize(("lab", "what"), RIGHT, ids=lambda value: getattr(value, "number", value))
def test_another_right_answer_gets_all_points(tmp_path: Path, worker: Worker, lab: Lab, what: str) -> None:
    exercise, old, new = changes(lab).RIGHT[what]
    source = lab.reference.read_text()
    assert old in source
    report = check(lab, source.replace(old, new), exercise, 1, tmp_path, worker)
    assert [result.text for result in report.results if result.status != "pass"] == []


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.number)
def test_a_changed_line_does_not_get_all_points(tmp_path: Path, worker: Worker, lab: Lab) -> None:
    harmless = {what for every in changes(lab).EQUIVALENT.values() for what in every}
    every = [*mutants(lab.reference.read_text())]
    assert harmless <= {mutant.what for mutant in every}
    tried = [mutant for mutant in every if THOROUGH or mutant.is_of_lines]
    if "ranks" in lab.needs and not THOROUGH:
        tried = tried[::4]  # a second each, since every probe starts several processes
    unnoticed = set()
    for mutant in tried:
        function = mutant.what.split(":")[0]
        report = check(lab, mutant.source, function, 1, tmp_path, worker)
        if report.points == report.max_points:
            unnoticed.add(mutant.what)
    assert unnoticed == harmless & {mutant.what for mutant in tried}
