"""Changes to each lab's reference solution: a change that breaks the solution loses points.

There are two kinds of changes. *Hurried* changes are typical mistakes of somebody in a hurry: HURRIED in the lab's
known_wrong.py. *Automatic* changes are mutants of the reference: a line left out, two lines swapped, an operator
replaced. A lab's right_answers.py holds other right answers, and names the automatic changes that no check may notice::

    RIGHT = {"exercise": {"the style": '''the change, as in known_wrong.py'''}}
    EQUIVALENT = {"the reason why the result is the same": ("function: the change",)}
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

SEEDS = range(int(os.environ.get("RANKZERO_SEEDS", 1)))  # of each answer; `make prove` sets the number
LABS = [lab for lab in all_labs() if lab.checks.exists()]

Changes = Mapping[str, Mapping[str, str]]  # exercise -> name -> change


def right_answers(lab: Lab) -> ModuleType:
    return load(lab.checks.with_name("right_answers.py"))


def each_change(changes: Mapping[Lab, Changes]) -> pytest.MarkDecorator:
    parameters = [
        pytest.param(lab, exercise, change, id=f"{lab.slug}-{name}")
        for lab, by_exercise in changes.items()
        for exercise, by_name in by_exercise.items()
        for name, change in by_name.items()
    ]
    return pytest.mark.parametrize(("lab", "exercise", "change"), parameters)


def check(lab: Lab, source: str, function: str, seed: int, folder: Path, client: LocalProbeClient) -> Report:
    """Checks `source` on the exercise with this name or this function, or on all exercises if there is none."""
    file = folder / "exercises.py"
    file.write_text(source)
    client.forget(file)
    chosen = tuple(exercise for exercise in exercises_of(lab) if function in (exercise.name, *exercise.functions))
    return check_file(lab, file, chosen or exercises_of(lab), seed=seed, client=client, explain=False)


@pytest.mark.prove  # `rankzero verify-lab` checks those of a lab, too
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


@pytest.mark.prove  # `rankzero verify-lab`, too
@each_change({lab: right_answers(lab).RIGHT for lab in LABS})
def test_another_right_answer_gets_all_points(
    tmp_path: Path, client: LocalProbeClient, lab: Lab, exercise: str, change: str
) -> None:
    source = changed_reference(lab, exercise, change, f"{lab.slug}, right_answers.py")
    for seed in SEEDS:
        report = check(lab, source, exercise, 1 + seed, tmp_path, client)
        assert [result.text for result in report.results if result.status != "pass"] == [], f"seed {1 + seed}"


@pytest.mark.prove
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.slug)
def test_a_mutant_does_not_get_all_points(tmp_path: Path, client: LocalProbeClient, lab: Lab) -> None:
    harmless = {description for group in right_answers(lab).EQUIVALENT.values() for description in group}
    unnoticed = set()
    for mutant in mutants(lab.reference.read_text()):
        report = check(lab, mutant.source, mutant.description.split(":")[0], 1, tmp_path, client)
        if report.points == report.max_points:
            unnoticed.add(mutant.description)
    assert unnoticed == harmless
