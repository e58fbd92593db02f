"""Forged answers get no points: right answers of another seed, and hostile values.

A submission runs in one process with the probes, and can send any message in place of a probe's answers. So a judge
accepts only the values that right code computes from this seed's inputs, and no value makes it fail with an exception.
A probe reads values themselves, not what an object's methods claim: `tests/lab-NN-name/attacks/` has files that try to
look right, each with the points of its honest part (`EARNS`: points, or points by exercise).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiers import sampled

from rankzero.curriculum import Lab, all_labs, find_lab
from rankzero.exercises.checks.check import Check, Exercise, exercises_of
from rankzero.exercises.checks.probe_client import LocalProbeClient, ProbeClient, Reply
from rankzero.exercises.checks.runner import RecordedAnswers, check_file
from rankzero.exercises.probes.answers import Answers
from rankzero.grading.attack_corpus import FOLDER, Attack, attacks

LABS = [lab for lab in all_labs() if lab.checks.exists()]
IN_A_SANDBOX = ("lab-02/kept_beside_the_file",)  # writes into folders of the machine; see test_grading_attacks.py
ATTACKS = [attack for attack in attacks() if attack.path.parent != FOLDER and attack.name not in IN_A_SANDBOX]
FIRST = {attack.lab: attack.name for attack in reversed(ATTACKS)}  # of each lab; `make prove` tries the others
SEEDS = (1, 2)


def each_lab(*sample: str) -> pytest.MarkDecorator:
    """Gives a test all labs; with a sample of numbers, the other labs only in `make prove`."""
    labs = sampled(LABS, [lab for lab in LABS if lab.number in sample]) if sample else LABS
    return pytest.mark.parametrize("lab", labs, ids=lambda lab: lab.slug)


def answers(client: LocalProbeClient, lab: Lab, exercise: Exercise, check: Check, seed: int) -> Answers:
    return client.ask(lab, lab.reference, exercise, check, seed).answers


@dataclass
class ReplayingClient(ProbeClient):
    """A client that answers for every file with the reference's right answers for another seed."""

    client: LocalProbeClient
    recorded: int

    def ask(
        self, lab: Lab, file: Path, exercise: Exercise, check: Check, seed: int, together: Sequence[Check] = ()
    ) -> Reply:
        if file != lab.reference:
            file, seed = lab.reference, self.recorded
        return self.client.ask(lab, file, exercise, check, seed, together)


@pytest.mark.parametrize("seed", [SEEDS[0], pytest.param(SEEDS[1], marks=pytest.mark.prove)])
@each_lab("02", "07")
def test_right_answers_of_another_seed_get_no_points(lab: Lab, seed: int, client: LocalProbeClient) -> None:
    forger = ReplayingClient(client, SEEDS[1] if seed == SEEDS[0] else SEEDS[0])
    report = check_file(lab, Path("forged.py"), exercises_of(lab), seed=seed, client=forger, explain=False)
    assert [result.check for result in report.results if result.status == "pass"] == []
    assert report.points == 0


MISSING = object()
VALUES: tuple[Any, ...] = (
    *(MISSING, None, True, False, math.nan, math.inf, -math.inf, 0, -1, 10**400, 1e308),
    *("", "0", "float", "\n" * 1000, "<b>" * 10_000, [], [[]], [[[0]]], [None] * 10_000, ["x", "x"]),
)
ARRAYS = (np.array([]), np.array(0.0), np.zeros((0, 3)), np.zeros(3, bool), np.full((2, 2), np.nan), np.zeros(5, "i8"))


def forgeries(value: Any, depth: int = 2) -> Iterator[Any]:
    """Yields hostile values in place of a right answer; some are close to the right answer."""
    for hostile in (*VALUES, *ARRAYS):
        if not same(hostile, value):
            yield hostile
    if isinstance(value, list) and depth:
        yield from ([*value, None], [*value, *[0] * 1000], [value])
        if value:
            yield from (value[:-1], [*value, value[-1]])
        for place in {0, len(value) // 2, len(value) - 1} if value else ():
            for element in forgeries(value[place], depth - 1):
                if element is not MISSING:
                    yield [*value[:place], element, *value[place + 1 :]]
    if isinstance(value, np.ndarray):
        yield from (array for array in changed_arrays(value) if not same(array, value))


def changed_arrays(value: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the array with another shape or data type, or with other numbers."""
    yield from (value[None], value.ravel()[:-1], np.append(value, 0), np.zeros_like(value))
    with np.errstate(all="ignore"):
        if value.dtype.kind == "f":
            yield from (np.full_like(value, number) for number in (np.nan, np.inf, -np.inf, 1e308))
        yield from (value.astype(kind) for kind in (bool, "u1", "i8", "f2"))
    changed = value.astype(float).copy()
    if changed.size:
        changed.flat[-1] = 7.25
        yield changed


def same(first: Any, second: Any) -> bool:
    """Tells whether two values are the same answer."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        close = first.shape == second.shape and np.allclose(first, second, rtol=1e-12, atol=1e-12, equal_nan=True)
        return first.dtype.kind == second.dtype.kind and bool(close)
    if type(first) in (int, float) and type(second) in (int, float):
        return first == second or (first != first and second != second)
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return False
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    return type(first) is type(second) and bool(first == second)


def name_of(value: Any) -> str:
    return "nothing" if value is MISSING else f"{type(value).__name__} {value!r}"[:120]


@each_lab()
def test_a_judge_refuses_every_forged_answer_with_a_short_sentence(lab: Lab, client: LocalProbeClient) -> None:
    wrong = []
    for exercise in exercises_of(lab):
        for check in exercise.checks:
            right = answers(client, lab, exercise, check, SEEDS[0])
            reading = RecordedAnswers(right)
            assert check.judge(reading, right) is None
            assert reading.names, f"{check.name} reads no answer"
            for name in sorted(reading.names & set(right)):
                for value in forgeries(right[name]):
                    problem = problem_of_verdict(check, {**right, name: value}, right)
                    if problem:
                        wrong.append(f"{check.name}: {name} = {name_of(value)}: {problem}")
    assert wrong == [], f"{len(wrong)}:\n" + "\n".join(wrong[:: max(1, len(wrong) // 60)])


def problem_of_verdict(check: Check, forged: Answers, right: Answers) -> str:
    """Returns the problem with the judge's verdict, or "" if the verdict is a short sentence of refusal."""
    given = RecordedAnswers({name: value for name, value in forged.items() if value is not MISSING})
    try:
        failure = check.judge(given, right)
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"[:200]
    if failure is None:
        return "passes"
    is_sentence = 5 < len(failure) < 500 and "\n" not in failure
    return "" if is_sentence else f"a verdict of {len(failure)} characters: {failure[:60]!r}"


@pytest.mark.parametrize(
    "attack",
    [pytest.param(each, marks=() if FIRST[each.lab] == each.name else pytest.mark.prove) for each in ATTACKS],
    ids=lambda attack: attack.name,
)
def test_a_file_that_tries_to_look_right_gets_the_points_of_its_honest_part(
    attack: Attack, client: LocalProbeClient, tmp_path: Path
) -> None:
    lab, file = find_lab(attack.lab), tmp_path / "exercises.py"
    file.write_text(f"{attack.base}\n\n{attack.path.read_text(encoding='utf-8')}", encoding="utf-8")
    report = check_file(lab, file, exercises_of(lab), seed=SEEDS[0], client=client, explain=False)
    assert report.unusable == ""
    assert report.points == attack.earns
    points = dict.fromkeys((exercise.name for exercise in exercises_of(lab)), 0)
    for result in report.results:
        points[result.exercise] += result.points
    assert attack.by_exercise in ({}, {name: earned for name, earned in points.items() if earned})
