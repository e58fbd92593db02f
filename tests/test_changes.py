"""Changes to each lab's reference solution: those that break it lose points, whoever made them.

Two kinds. *Hurried* ones are what somebody in a hurry writes: HURRIED in the lab's known_wrong.py. *Automatic* ones are
made from the reference by the dozen: a line left out, two swapped, an operator turned. A lab's right_answers.py holds
what other people write who are right, and names the automatic changes that no check should notice::

    RIGHT = {"exercise": {"in what style": '''the change, as in known_wrong.py'''}}
    EQUIVALENT = {"why it changes nothing": ("function: what was changed",)}
"""

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest
from mutants import mutants

from rankzero.curriculum import Lab, all_labs
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.known_wrong import changed_reference
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.checks.report import Report
from rankzero.exercises.checks.runner import check_file
from rankzero.exercises.probes.loader import load

SEEDS = range(int(os.environ.get("RANKZERO_SEEDS", 1)))  # for each hurried answer; `make prove` says how many
LABS = [lab for lab in all_labs() if lab.checks.exists()]

Changes = Mapping[str, Mapping[str, str]]  # exercise -> name -> change


def right_answers(lab: Lab) -> ModuleType:
    return load(lab.checks.with_name("right_answers.py"))


def each_change(changes: Mapping[Lab, Changes]) -> pytest.MarkDecorator:
    every = [
        pytest.param(lab, exercise, change, id=f"{lab.slug}-{name}")
        for lab, by_exercise in changes.items()
        for exercise, by_name in by_exercise.items()
        for name, change in by_name.items()
    ]
    return pytest.mark.parametrize(("lab", "exercise", "change"), every)


def check(lab: Lab, source: str, function: str, seed: int, folder: Path, client: LocalProbeClient) -> Report:
    """Checks `source` on the exercise of that name, or that has this function."""
    file = folder / "exercises.py"
    file.write_text(source)
    client.forget(file)
    chosen = tuple(one for one in exercises_of(lab) if function in (one.name, *one.functions))
    return check_file(lab, file, chosen or exercises_of(lab), seed=seed, client=client, explain=False)


@each_change({lab: load(lab.known_wrong).HURRIED for lab in LABS})
def test_a_hurried_answer_does_not_get_all_points(
    tmp_path: Path, client: LocalProbeClient, lab: Lab, exercise: str, change: str
) -> None:
    source = changed_reference(lab, exercise, change, str(lab.known_wrong))
    for seed in SEEDS:
        report = check(lab, source, exercise, seed, tmp_path, client)
        assert report.unusable == ""
        assert all(result.status in ("pass", "fail", "error", "skipped") for result in report.results)
        assert report.points < report.max_points, f"seed {seed}"


@each_change({lab: right_answers(lab).RIGHT for lab in LABS})
def test_another_right_answer_gets_all_points(
    tmp_path: Path, client: LocalProbeClient, lab: Lab, exercise: str, change: str
) -> None:
    source = changed_reference(lab, exercise, change, f"{lab.slug}, right_answers.py")
    report = check(lab, source, exercise, 1, tmp_path, client)
    assert [result.text for result in report.results if result.status != "pass"] == []


@pytest.mark.prove
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.slug)
def test_a_changed_line_does_not_get_all_points(tmp_path: Path, client: LocalProbeClient, lab: Lab) -> None:
    harmless = {what for every in right_answers(lab).EQUIVALENT.values() for what in every}
    unnoticed = set()
    for mutant in mutants(lab.reference.read_text()):
        report = check(lab, mutant.source, mutant.what.split(":")[0], 1, tmp_path, client)
        if report.points == report.max_points:
            unnoticed.add(mutant.what)
    assert unnoticed == harmless
