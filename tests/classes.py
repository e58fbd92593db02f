"""Classes to grade: references, stubs, known-wrong solutions and attacks, with the points that each must get."""

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.known_wrong import known_wrong, wrong_source
from rankzero.grading.attack_corpus import attacks
from rankzero.grading.grade import read_grade

HANDED_IN = 1_700_000_000  # 2023-11-14 22:13:20 UTC

# By exercise, or for "" in all, the points that a student must get; what builds on a wrong exercise may lose some too.
Expected = dict[str, dict[str, int]]

QUICK = ("exit_at_import", "patch_torch", "equal_to_everything", "forged_verdict", "daemon")  # attacks to begin with
PLACES: dict[str, Any] = {"PORT": 9, "SECRET": "/root/secret", "MARK": "a mark"}


def write_class(folder: Path, lab: Lab, count: int) -> Expected:
    """Writes `count` submissions, a folder each, and returns the points that each must get, by student."""
    full = {exercise.name: exercise.points for exercise in exercises_of(lab)}
    kinds = [(lab.reference.read_bytes(), full), (lab.stubs.read_bytes(), dict.fromkeys(full, 0))]
    by_name = {one.name: one for one in attacks() if one.lab == lab.number and not (one.records or one.changes)}
    hostile = [by_name[name] for name in QUICK] + [one for name, one in by_name.items() if name not in QUICK]
    for wrong, attack in itertools.zip_longest(known_wrong(lab).values(), hostile):
        if wrong:
            left = sum(points_left(next(one for one in exercises_of(lab) if one.name == wrong.exercise), wrong.fails))
            kinds.append((wrong_source(lab, wrong).encode(), {wrong.exercise: left}))
        if attack:
            kinds.append((attack.source(**PLACES), {"": attack.earns}))
    expected = {}
    for number in range(count):
        source, earned = kinds[number % len(kinds)]
        hand_in(folder / f"student-{number:03}", source)
        expected[f"student-{number:03}"] = earned
    return expected


def points_left(exercise: Exercise, fails: Iterable[str]) -> Iterator[int]:
    """The points of the checks that neither fail nor wait for one that does."""
    lost = set(fails)
    for check in exercise.checks:
        if lost.isdisjoint({check.name, *check.requires}):
            yield check.points
        else:
            lost.add(check.name)


def hand_in(place: Path, source: bytes) -> None:
    """A student's folder with this file in it."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "exercises.py").write_bytes(source)
    os.utime(place / "exercises.py", (HANDED_IN, HANDED_IN))


def earned(out: Path, lab: Lab, expected: Expected) -> Expected:
    """What the grades in OUT say of the exercises in `expected`."""
    found = {}
    for student, exercises in expected.items():
        grade = read_grade(out / "grades" / lab.number / f"{student}.json")
        points = {"": grade.points, **(grade.report.by_exercise() if grade.report else {})}
        found[student] = {name: points[name] for name in exercises}
    return found
