"""Answers that nobody computed earn nothing: those of another seed, and hostile ones.

A submission runs in one process with the probes, and may send whatever it likes in their place. So a judge takes only
what the right code computes from this seed's inputs, and takes anything at all without breaking. And a probe brings
back what is there, whatever an object says of itself: `tests/lab-NN-name/attacks/` has files that try to look right,
each with the points that it earns honestly (`EARNS`: 0, or points by exercise).
"""

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankzero.curriculum import Lab, all_labs
from rankzero.exercises.checks.check import Check, Exercise, exercises_of
from rankzero.exercises.checks.probe_client import LocalProbeClient, Reply
from rankzero.exercises.checks.runner import RecordedAnswers, check_file
from rankzero.exercises.probes.answers import Answers

LABS = [lab for lab in all_labs() if lab.checks.exists()]
ATTACKS = [(lab, file) for lab in LABS for file in sorted(lab.attacks.glob("*.py"))]
SEEDS = (1, 2)


def each_lab() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.slug)


def answers(client: LocalProbeClient, lab: Lab, exercise: Exercise, check: Check, seed: int) -> Answers:
    return client.ask(lab, lab.reference, exercise, check, seed).answers


@dataclass
class Replaying:
    """Sends the reference's right answers of another seed for whatever file it is asked about."""

    client: LocalProbeClient
    recorded: int

    def ask(self, lab: Lab, file: Path, exercise: Exercise, check: Check, seed: int) -> Reply:
        if file != lab.reference:
            file, seed = lab.reference, self.recorded
        return self.client.ask(lab, file, exercise, check, seed)


@pytest.mark.parametrize("seed", [SEEDS[0], pytest.param(SEEDS[1], marks=pytest.mark.prove)])
@each_lab()
def test_the_right_answers_of_another_seed_earn_nothing(lab: Lab, seed: int, client: LocalProbeClient) -> None:
    forger = Replaying(client, SEEDS[1] if seed == SEEDS[0] else SEEDS[0])
    report = check_file(lab, Path("forged.py"), exercises_of(lab), seed=seed, client=forger, explain=False)
    assert [result.check for result in report.results if result.status == "pass"] == []
    assert report.points == 0


NOTHING = object()
PLAIN: tuple[Any, ...] = (
    *(NOTHING, None, True, False, math.nan, math.inf, -math.inf, 0, -1, 10**400, 1e308),
    *("", "0", "float", "\n" * 1000, "<b>" * 10_000, [], [[]], [[[0]]], [None] * 10_000, ["x", "x"]),
)
ARRAYS = (np.array([]), np.array(0.0), np.zeros((0, 3)), np.zeros(3, bool), np.full((2, 2), np.nan), np.zeros(5, "i8"))


def changed(value: Any, deep: int = 2) -> Iterator[Any]:
    """Everything a forger may have put in the place of a right answer, some of it close to what was right."""
    for hostile in (*PLAIN, *ARRAYS):
        if not same(hostile, value):
            yield hostile
    if isinstance(value, list) and deep:
        yield from ([*value, None], [*value, *[0] * 1000], [value])
        if value:
            yield from (value[:-1], [*value, value[-1]])
        for place in {0, len(value) // 2, len(value) - 1} if value else ():
            for one in changed(value[place], deep - 1):
                if one is not NOTHING:
                    yield [*value[:place], one, *value[place + 1 :]]
    if isinstance(value, np.ndarray):
        yield from (one for one in changed_arrays(value) if not same(one, value))


def changed_arrays(value: np.ndarray) -> Iterator[np.ndarray]:
    """The array in another shape or kind, or with other numbers."""
    yield from (value[None], value.ravel()[:-1], np.append(value, 0), np.zeros_like(value))
    with np.errstate(all="ignore"):
        if value.dtype.kind == "f":
            yield from (np.full_like(value, fill) for fill in (np.nan, np.inf, -np.inf, 1e308))
        yield from (value.astype(kind) for kind in (bool, "u1", "i8", "f2"))
    spoiled = value.astype(float).copy()
    if spoiled.size:
        spoiled.flat[-1] = 7.25
        yield spoiled


def same(one: Any, other: Any) -> bool:
    """Whether they are the same answer."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        close = one.shape == other.shape and np.allclose(one, other, rtol=1e-12, atol=1e-12, equal_nan=True)
        return one.dtype.kind == other.dtype.kind and bool(close)
    if type(one) in (int, float) and type(other) in (int, float):
        return one == other or (one != one and other != other)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def name_of(value: Any) -> str:
    return "nothing" if value is NOTHING else f"{type(value).__name__} {value!r}"[:120]


@each_lab()
def test_a_judge_takes_no_answer_that_was_not_computed_and_breaks_at_none(lab: Lab, client: LocalProbeClient) -> None:
    wrong = []
    for exercise in exercises_of(lab):
        for check in exercise.checks:
            right = answers(client, lab, exercise, check, SEEDS[0])
            reading = RecordedAnswers(right)
            assert check.judge(reading, right) is None
            assert reading.names, f"{check.name} reads nothing"
            for name in sorted(reading.names & set(right)):
                for value in changed(right[name]):
                    said = judged(check, {**right, name: value}, right)
                    if said:
                        wrong.append(f"{check.name}: {name} = {name_of(value)}: {said}")
    assert wrong == [], f"{len(wrong)}:\n" + "\n".join(wrong[:: max(1, len(wrong) // 60)])


def judged(check: Check, forged: Answers, right: Answers) -> str:
    """What is wrong with the judge's verdict; nothing if it is a short sentence."""
    given = RecordedAnswers({name: value for name, value in forged.items() if value is not NOTHING})
    try:
        said = check.judge(given, right)
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"[:200]
    if said is None:
        return "passes"
    return "" if 5 < len(said) < 500 and "\n" not in said else f"says {len(said)} characters, {said[:60]!r}"


def earns(file: Path) -> dict[str, int]:
    """By exercise, what its EARNS says."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    values = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EARNS"
    ]
    return ast.literal_eval(values[0]) or {}


@pytest.mark.parametrize(("lab", "file"), ATTACKS, ids=[f"{lab.slug}-{file.stem}" for lab, file in ATTACKS])
def test_a_file_that_tries_to_look_right_earns_what_it_does_right(
    lab: Lab, file: Path, client: LocalProbeClient
) -> None:
    report = check_file(lab, file, exercises_of(lab), seed=SEEDS[0], client=client, explain=False)
    assert report.unusable == ""
    points = {exercise.name: 0 for exercise in exercises_of(lab)}
    for result in report.results:
        points[result.exercise] += result.points
    assert {name: earned for name, earned in points.items() if earned} == earns(file)
