"""Classes for grading tests: references, stubs, known-wrong solutions and attacks, with their expected points."""

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

# Student -> exercise -> expected points; the exercise "" stands for the total. Exercises that build on a wrong one may
# lose points too, so they are left out.
Expected = dict[str, dict[str, int]]

QUICK = ("exit_at_import", "patch_torch", "equal_to_everything", "forged_verdict", "daemon")  # attacks that come first
PLACES: dict[str, Any] = {"PORT": 9, "SECRET": "/root/secret", "MARK": "a mark"}


def write_class(folder: Path, lab: Lab, count: int) -> Expected:
    """Writes `count` submissions, a folder each, and returns the points that each must get, by student."""
    full = {exercise.name: exercise.points for exercise in exercises_of(lab)}
    kinds = [(lab.reference.read_bytes(), full), (lab.stubs.read_bytes(), dict.fromkeys(full, 0))]
    lab_attacks = (attack for attack in attacks() if attack.lab == lab.number)
    by_name = {attack.name: attack for attack in lab_attacks if not (attack.records or attack.changes)}
    hostile = [by_name[name] for name in (*QUICK, *(name for name in by_name if name not in QUICK))]
    for wrong, attack in itertools.zip_longest(known_wrong(lab).values(), hostile):
        if wrong:
            exercise = next(exercise for exercise in exercises_of(lab) if exercise.name == wrong.exercise)
            kinds.append((wrong_source(lab, wrong).encode(), {wrong.exercise: sum(points_left(exercise, wrong.fails))}))
        if attack:
            kinds.append((attack.source(**PLACES), {"": attack.earns}))
    expected = {}
    for number in range(count):
        source, earned = kinds[number % len(kinds)]
        hand_in(folder / f"student-{number:03}", source)
        expected[f"student-{number:03}"] = earned
    return expected


def points_left(exercise: Exercise, fails: Iterable[str]) -> Iterator[int]:
    """Yields the points of the checks that neither fail nor are blocked by a failing check."""
    failed_or_blocked = set(fails)
    for check in exercise.checks:
        if failed_or_blocked.isdisjoint({check.name, *check.requires}):
            yield check.points
        else:
            failed_or_blocked.add(check.name)


def hand_in(folder: Path, source: bytes) -> None:
    """Makes a student's folder with this exercises.py in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "exercises.py").write_bytes(source)
    os.utime(folder / "exercises.py", (HANDED_IN, HANDED_IN))


def earned(out: Path, lab: Lab, expected: Expected) -> Expected:
    """Returns the points that the grades in `out` give to the students and exercises of `expected`."""
    graded = {}
    for student, exercises in expected.items():
        grade = read_grade(out / "grades" / lab.number / f"{student}.json")
        points = {"": grade.points, **(grade.report.by_exercise() if grade.report else {})}
        graded[student] = {name: points[name] for name in exercises}
    return graded
