"""Seeds of grading: unpredictable, different per student, the same again for the same run, and each used once."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sandboxes import needs_sandbox
from tiers import sampled

from rankzero.curriculum import Lab, all_labs, find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.probe_client import LocalProbeClient
from rankzero.exercises.probes.loader import load
from rankzero.grading.grade import Student, Submission
from rankzero.grading.grader import Grader
from rankzero.grading.seed_pool import SeedPool

LAB = find_lab("02")
LABS = [pytest.param(lab, id=lab.slug.removeprefix("lab-")) for lab in all_labs() if lab.checks.exists()]
POOL = SeedPool("a secret")
POINTS = {exercise.name: exercise.points for exercise in exercises_of(LAB)}


def test_seeds_differ_per_student_lab_run_and_generation_and_come_again_for_the_same_run() -> None:
    students = [f"student-{number}" for number in range(30)]
    drawn = {student: POOL.of("02", student) for student in students}
    assert drawn == {student: POOL.of("02", student) for student in students}
    assert len({frozenset(seeds) for seeds in drawn.values()}) > 20
    assert all(len(set(seeds)) == 3 for seeds in drawn.values())
    used = {seed for seeds in drawn.values() for seed in seeds}
    assert len(used) <= 16, "the reference runs once per seed of a pool"
    for other in (replace(POOL, secret="another"), replace(POOL, generation=1)):
        assert used.isdisjoint(seed for student in students for seed in other.of("02", student))
    assert used.isdisjoint(seed for student in students for seed in POOL.of("03", student))


def test_the_number_of_seeds_is_an_option_and_fixed_seeds_replace_the_pool() -> None:
    for count in (1, 2, 12):
        assert len(set(replace(POOL, count=count).of("02", "ada"))) == count
    assert replace(POOL, fixed=(7, 8)).of("02", "ada") == (7, 8)


def table_of_answers(seed: int) -> str:
    """Returns a learning_rate that looks its results up in a table: right on this seed, and on no other."""
    reference, probes, table = load(LAB.reference), load(LAB.probes), {}

    def learning_rate(*arguments: float) -> float:
        table[arguments] = reference.learning_rate(*arguments)
        return float(table[arguments])

    for name in ("schedule", "no_warmup"):
        getattr(probes, name)(SimpleNamespace(learning_rate=learning_rate), seed)
    return f"\n\nTABLE = {table!r}\n\ndef learning_rate(*arguments):\n    return TABLE.get(arguments, 0.0)\n"


@needs_sandbox()
@pytest.mark.parametrize("known", sampled([0, 1, 2], [0]))
def test_a_table_of_answers_for_one_seed_earns_nothing(known: int, grader: Grader, tmp_path: Path) -> None:
    seeds = (11, 12, 13)
    file = tmp_path / "exercises.py"
    file.write_text(LAB.stubs.read_text() + table_of_answers(seeds[known]))
    submission = Submission(Student("ada"), "02", file)
    grader.settings = replace(grader.settings, pool=SeedPool(fixed=seeds))
    grade = grader.grade(submission)
    assert grade.points == 0
    checks = [name for name in grade.judged if name.startswith("learning_rate/")]
    assert {grade.judged[check] for check in checks} == {seeds[: 1 if known else 2]}
    assert grade.repeat_seed == seeds[0]
    grader.settings = replace(grader.settings, pool=SeedPool(fixed=seeds[known : known + 1]))
    assert grader.grade(submission).points == POINTS["learning_rate"], "the table is right"


@pytest.mark.prove
@needs_sandbox()
def test_an_exercise_that_spoils_the_process_for_others_costs_only_its_own_points(
    grader: Grader, tmp_path: Path
) -> None:
    """All exercises run in one process first; where a check does not pass, its exercise runs alone."""
    file = tmp_path / "exercises.py"
    source = LAB.reference.read_text()
    body = source.index("### BEGIN SOLUTION", source.index("def learning_rate"))
    file.write_text(f"{source[:body]}torch.set_default_dtype(torch.float16)\n    {source[body:]}")
    grade = grader.grade(Submission(Student("ada"), "02", file))
    assert grade.report
    lost = {name for name, points in grade.report.by_exercise().items() if points < POINTS[name]}
    assert lost <= {"learning_rate"}


def test_what_the_contract_asks_for_is_no_remark_on_a_failure(grader: Grader, tmp_path: Path) -> None:
    """The reference's save_checkpoint returns None too, so the failure of another line says nothing about it."""
    file = tmp_path / "exercises.py"
    file.write_text(LAB.reference.read_text().replace('"rng": torch.get_rng_state(),', '"rng": torch.rand(3),'))
    grade = grader.grade(Submission(Student("ada"), "02", file))
    assert grade.report
    failed = [result.text for result in grade.report.results if result.status != "pass"]
    assert failed
    assert [text for text in failed if "returned None" in text or "changed its argument" in text] == []


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.parametrize("lab", LABS)
def test_references_answer_alike_in_one_process_and_in_a_process_per_exercise(
    lab: Lab, client: LocalProbeClient, tmp_path: Path
) -> None:
    exercises, seeds = exercises_of(lab), [21, 22, 23]
    copy = tmp_path / "exercises.py"
    copy.write_bytes(lab.reference.read_bytes())
    together = client.ask_together(lab, copy, exercises, seeds, trusted=True)
    for exercise in exercises:
        for check in exercise.checks:
            for seed in seeds:
                alone, other = client.ask(lab, copy, exercise, check, seed), together[check.probe, seed]
                assert alone.status == other.status == "answered"
                assert check.judge(dict(other.answers), alone.answers) is None, check.name
