"""Every lab's exercises: the reference gets all points, the stub none, and each known-wrong solution loses its own."""

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankzero.curriculum import ROOT, Lab, all_labs
from rankzero.exercises.checks.check import Exercise
from rankzero.exercises.checks.misconceptions import Misconception, misconceptions
from rankzero.exercises.checks.runner import check_file, exercises_of
from rankzero.exercises.probes.probe_client import Worker
from rankzero.publish.stubs import answers

# The first test that needs an exercise runs all its solutions for all seeds: on a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(1500)

LABS = [lab for lab in all_labs() if lab.checks.exists()]
WRONG = [(lab, wrong) for lab in LABS for wrong in misconceptions(lab)]
THOROUGH = "RANKZERO_SEEDS" in os.environ  # `make prove`


def seeds(lab: Lab) -> range:
    """For the reference. Every probe of a lab with ranks starts several processes, some tens of milliseconds each."""
    return range(5 if "ranks" in lab.needs and not THOROUGH else 20)


def wrong_seeds(lab: Lab) -> range:
    """For each known-wrong solution: as many as time allows; `make prove` says how many."""
    return range(int(os.environ.get("RANKZERO_SEEDS", 2 if "ranks" in lab.needs else 4)))


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as running:
        yield running


def each_lab() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.slug)


def each_wrong() -> pytest.MarkDecorator:
    ids = [f"{lab.slug}-{wrong.name}" for lab, wrong in WRONG]
    return pytest.mark.parametrize(("lab", "wrong"), WRONG, ids=ids)


def only(exercises: tuple[Exercise, ...], name: str) -> tuple[Exercise, ...]:
    return tuple(exercise for exercise in exercises if exercise.name == name)


@functools.cache
def ask_all_ahead(lab: Lab, name: str, worker: Worker) -> None:
    """Runs every solution to an exercise, right or wrong, for all its seeds: one process each, not one a seed."""
    (exercise,) = only(exercises_of(lab), name)
    worker.ask_ahead(lab, lab.reference, exercise, [*seeds(lab)])
    for wrong in misconceptions(lab):
        if wrong.exercise == name:
            worker.ask_ahead(lab, wrong.file, exercise, [*wrong_seeds(lab)], over=lab.reference)


@each_lab()
def test_the_reference_passes_every_check_for_every_seed(lab: Lab, worker: Worker) -> None:
    for exercise in exercises_of(lab):
        ask_all_ahead(lab, exercise.name, worker)
    for seed in seeds(lab):
        report = check_file(lab, lab.reference, exercises_of(lab), seed=seed, worker=worker)
        assert [result for result in report.results if result.status != "pass"] == []
        assert report.points == report.max_points > 0


@each_lab()
def test_the_untouched_stub_fails_every_check_and_is_named(lab: Lab, worker: Worker) -> None:
    exercises = exercises_of(lab)
    report = check_file(lab, lab.stubs, exercises, seed=1, worker=worker)
    functions = {exercise.name: exercise.functions for exercise in exercises}
    for result in report.results:
        assert result.status == "fail", result
        assert any(f"{name} is not written yet" in result.text for name in functions[result.exercise]), result
    assert report.points == 0
    assert report.diagnoses == ()


@each_wrong()
def test_a_known_wrong_solution_loses_exactly_its_checks_and_is_recognized(
    lab: Lab, wrong: Misconception, worker: Worker
) -> None:
    exercises = only(exercises_of(lab), wrong.exercise)
    ask_all_ahead(lab, exercises[0].name, worker)
    for seed in wrong_seeds(lab):
        report = check_file(lab, wrong.file, exercises, seed=seed, worker=worker, over=lab.reference)
        failed = {result.check for result in report.results if result.status not in ("pass", "skipped")}
        assert failed == wrong.fails, f"seed {seed}"
        assert [diagnosis.name for diagnosis in report.diagnoses] == [wrong.name], f"seed {seed}"


@each_lab()
def test_every_exercise_has_two_known_wrong_solutions_hints_and_points(lab: Lab) -> None:
    wrong = misconceptions(lab)
    assert len(wrong) >= 12
    for exercise in exercises_of(lab):
        assert sum(one.exercise == exercise.name for one in wrong) >= 2, exercise.name
        assert len(exercise.hints) >= 2, exercise.name
        assert exercise.points > 0
        assert exercise.minutes > 0
    names = [check.name for exercise in exercises_of(lab) for check in exercise.checks]
    assert len(names) == len(set(names))
    required = {name for exercise in exercises_of(lab) for check in exercise.checks for name in check.requires}
    assert required <= set(names)


@each_lab()
def test_the_page_has_the_facts_the_hints_and_a_solution_of_every_exercise(lab: Lab) -> None:
    page = lab.page.read_text(encoding="utf-8")
    for exercise in exercises_of(lab):
        assert f"### `{exercise.name}`\n\n<!-- facts: {exercise.name} -->\n" in page
        assert f"<!-- hints: {exercise.name} -->\n" in page
        for function in exercise.functions:
            assert f"<!-- excerpt: solutions/{lab.slug}/exercises.py#{function} body -->" in page


@each_wrong()
def test_a_misconception_points_to_a_heading_that_exists(lab: Lab, wrong: Misconception) -> None:
    page, _, anchor = wrong.read.partition("#")
    headings = [line.lstrip("# ") for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if line[:1] == "#"]
    slugs = ["".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_") for heading in headings]
    assert anchor in slugs, wrong.read


def generated_files() -> list[Path]:
    return [
        *(ROOT / "code").glob("lab-*/exercises.py"),
        *(ROOT / "notebooks").glob("*.ipynb"),
    ]


@each_lab()
def test_no_answer_leaks_into_a_generated_file(lab: Lab) -> None:
    secret = {line for line in answers(lab.reference) if len(line) > 25 and not line.startswith("return")}
    assert len(secret) > 10
    for file in generated_files():
        text = file.read_text(encoding="utf-8").replace("\\", "")
        assert [line for line in secret if line in text] == [], file
        assert "SOLUTION" not in text
