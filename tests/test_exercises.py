"""Exercises of every lab: points of the reference, of the stubs and of known-wrong solutions.

`make test` runs a cover of the known-wrong solutions: each check has one that must fail it. `rankzero verify-lab` runs
all known-wrong solutions of its lab, and `make prove` those of all labs.
"""

import functools
import os
import re
from pathlib import Path

import pytest

from rankzero.curriculum import ROOT, Lab, all_labs, find_lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.known_wrong import KnownWrong, changed_reference, known_wrong, wrong_file
from rankzero.exercises.checks.page_headings import page_headings
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.checks.runner import check_file
from rankzero.exercises.probes.loader import load
from rankzero.publish.stubs import answers

# The first test of an exercise runs all its solutions for all seeds, which takes minutes on a busy machine.
pytestmark = pytest.mark.timeout(1500)

LABS = [lab for lab in all_labs() if lab.checks.exists()]
SEEDS = range(int(os.environ.get("RANKZERO_SEEDS", 1)))  # `make prove` sets the number
PROVE = pytest.mark.prove


def each_lab() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.slug)


@functools.cache
def cover(lab: Lab) -> frozenset[str]:
    """Returns the names of few known-wrong solutions that together fail every check."""
    names, left = [], {check for wrong in known_wrong(lab).values() for check in wrong.fails}
    while left:
        best = max(known_wrong(lab).values(), key=lambda wrong: len(left.intersection(wrong.fails)))
        names.append(best.name)
        left -= set(best.fails)
    return frozenset(names)


def each_wrong() -> pytest.MarkDecorator:
    parameters = [
        pytest.param(lab, wrong, id=f"{lab.slug}-{wrong.name}", marks=() if wrong.name in cover(lab) else PROVE)
        for lab in LABS
        for wrong in known_wrong(lab).values()
    ]
    return pytest.mark.parametrize(("lab", "wrong"), parameters)


def only(exercises: tuple[Exercise, ...], name: str) -> tuple[Exercise, ...]:
    return tuple(exercise for exercise in exercises if exercise.name == name)


@functools.cache
def run_all_solutions(lab: Lab, name: str, client: LocalProbeClient) -> None:
    """Runs the solutions of an exercise, right or wrong, for all seeds: one process per solution, not one per seed."""
    (exercise,) = only(exercises_of(lab), name)
    client.ask_ahead(lab, lab.reference, exercise, [*SEEDS])
    for wrong in known_wrong(lab).values():
        if wrong.exercise == name and (wrong.name in cover(lab) or len(SEEDS) > 1):
            client.ask_ahead(lab, wrong_file(lab, wrong), exercise, [*SEEDS])


@each_lab()
def test_the_reference_passes_every_check_for_every_seed(lab: Lab, client: LocalProbeClient) -> None:
    for exercise in exercises_of(lab):
        run_all_solutions(lab, exercise.name, client)
    for seed in SEEDS:
        report = check_file(lab, lab.reference, exercises_of(lab), seed=seed, client=client)
        assert [result for result in report.results if result.status != "pass"] == []
        assert report.points == report.max_points > 0


@each_lab()
def test_an_unchanged_stub_fails_every_check_and_is_named(lab: Lab, client: LocalProbeClient) -> None:
    exercises = exercises_of(lab)
    report = check_file(lab, lab.stubs, exercises, seed=1, client=client)
    functions = {exercise.name: exercise.functions for exercise in exercises}
    for result in report.results:
        assert result.status == "fail", result
        assert any(f"{name} is not written yet" in result.text for name in functions[result.exercise]), result
    assert report.points == 0
    assert report.diagnoses == ()


@each_wrong()
def test_a_known_wrong_solution_fails_exactly_its_checks_and_is_explained(
    lab: Lab, wrong: KnownWrong, client: LocalProbeClient
) -> None:
    exercises = only(exercises_of(lab), wrong.exercise)
    run_all_solutions(lab, exercises[0].name, client)
    for seed in SEEDS:
        report = check_file(lab, wrong_file(lab, wrong), exercises, seed=seed, client=client)
        failed = {result.check for result in report.results if result.status not in ("pass", "skipped")}
        assert failed == set(wrong.fails), f"seed {seed}"
        assert [diagnosis.name for diagnosis in report.diagnoses] == [wrong.name], f"seed {seed}"


@each_lab()
def test_every_exercise_has_two_known_wrong_solutions_hints_and_points(lab: Lab) -> None:
    wrongs = known_wrong(lab).values()
    assert len(wrongs) >= 12
    for exercise in exercises_of(lab):
        assert sum(wrong.exercise == exercise.name for wrong in wrongs) >= 2, exercise.name
        assert len(exercise.hints) >= 2, exercise.name
        assert exercise.points > 0
        assert exercise.minutes > 0
    names = [check.name for exercise in exercises_of(lab) for check in exercise.checks]
    assert len(names) == len(set(names))
    assert set(names) == {name for wrong in wrongs for name in wrong.fails}, "a check that no solution fails"
    required = {name for exercise in exercises_of(lab) for check in exercise.checks for name in check.requires}
    assert required <= set(names)


@each_lab()
def test_known_wrong_solutions_are_in_the_order_of_their_checks(lab: Lab) -> None:
    checks = [check.name for exercise in exercises_of(lab) for check in exercise.checks]
    places = [min(map(checks.index, wrong.fails)) for wrong in known_wrong(lab).values()]
    assert places == sorted(places)
    assert len(load(lab.known_wrong).KNOWN_WRONG) == len(places)  # the names are distinct


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("-    optimizer.zero_grad()\n", r"occurs 0 times, not once, in checkpoint:\n    optimizer.zero_grad\(\)"),
        ("     ### BEGIN SOLUTION\n+    pass\n", r"occurs 2 times, not once, in checkpoint:\n    ### BEGIN SOLUTION"),
        ("     torch.save(state, path)\n", "nothing is changed"),
    ],
)
def test_the_error_for_a_change_that_does_not_fit_the_reference_names_it(change: str, problem: str) -> None:
    with pytest.raises(UserError, match=f"lab-02, trial: .*{problem}"):
        changed_reference(find_lab("02"), "checkpoint", change, "lab-02, trial")


@each_lab()
def test_the_page_has_facts_hints_and_solution_of_every_exercise(lab: Lab) -> None:
    page = lab.page.read_text(encoding="utf-8")
    for exercise in exercises_of(lab):
        heading = f"### `{exercise.name}`\n\n<!-- facts: {exercise.name} -->\n"
        assert heading in page
        section = re.split(r"^##+ ", page.partition(heading)[2], maxsplit=1, flags=re.MULTILINE)[0]
        assert f"<!-- hints: {exercise.name} -->\n" in section
        assert f"../solutions/{lab.slug}/exercises.py)" in section or "<!-- excerpt: solutions/" in section


@each_lab()
def test_each_misconception_points_to_a_heading_that_exists(lab: Lab) -> None:
    for wrong in known_wrong(lab).values():
        page, _, anchor = wrong.read.partition("#")
        assert anchor in page_headings(ROOT / page), wrong.read


def generated_files() -> list[Path]:
    return [
        *(ROOT / "code").glob("lab-*/exercises.py"),
        *(ROOT / "notebooks").glob("*.ipynb"),
    ]


@each_lab()
def test_no_answer_leaks_into_a_generated_file(lab: Lab) -> None:
    answer_lines = {line for line in answers(lab.reference) if len(line) > 25 and not line.startswith("return")}
    assert len(answer_lines) > 10
    for file in generated_files():
        text = file.read_text(encoding="utf-8").replace("\\", "")
        assert [line for line in answer_lines if line in text] == [], file
        assert "SOLUTION" not in text
