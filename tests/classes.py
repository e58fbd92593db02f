"""Classes to grade: references, stubs and known-wrong solutions, with the points that each must get."""

import os
from collections.abc import Iterator
from pathlib import Path

from rankzero.curriculum import Lab
from rankzero.exercises.check import Exercise
from rankzero.exercises.misconceptions import misconceptions
from rankzero.exercises.runner import exercises_of
from rankzero.grading.grade import read_grade

HANDED_IN = 1_700_000_000  # 2023-11-14 22:13:20 UTC

# By exercise, the points that a student must get; an exercise that builds on a wrong one may lose some too.
Expected = dict[str, dict[str, int]]


def write_class(folder: Path, lab: Lab, count: int) -> Expected:
    """Writes `count` submissions, a folder each, and returns what each must get, by student."""
    full = {exercise.name: exercise.points for exercise in exercises_of(lab)}
    reference = lab.reference.read_text()
    kinds = [(reference, full), (lab.stubs.read_text(), dict.fromkeys(full, 0))]
    for wrong in misconceptions(lab):
        left = sum(points_left(next(one for one in exercises_of(lab) if one.name == wrong.exercise), wrong.fails))
        kinds.append((f"{reference}\n\n{wrong.file.read_text()}", {wrong.exercise: left}))
    expected = {}
    for number in range(count):
        source, earned = kinds[number % len(kinds)]
        hand_in(folder / f"student-{number:03}", source)
        expected[f"student-{number:03}"] = earned
    return expected


def points_left(exercise: Exercise, fails: frozenset[str]) -> Iterator[int]:
    """The points of the checks that neither fail nor wait for one that does."""
    lost = set(fails)
    for check in exercise.checks:
        if lost.isdisjoint({check.name, *check.requires}):
            yield check.points
        else:
            lost.add(check.name)


def hand_in(place: Path, source: str) -> None:
    """A student's folder with this file in it."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "exercises.py").write_text(source)
    os.utime(place / "exercises.py", (HANDED_IN, HANDED_IN))


def earned(out: Path, lab: Lab, expected: Expected) -> Expected:
    """What the grades in OUT say of the exercises in `expected`."""
    found = {}
    for student, exercises in expected.items():
        report = read_grade(out / "grades" / lab.number / f"{student}.json").report
        assert report is not None
        found[student] = {name: report.by_exercise()[name] for name in exercises}
    return found
