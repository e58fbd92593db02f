"""Regrading: which verdicts of an earlier grade still hold, and a grade made of them and of new verdicts."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Check, Exercise, exercises_of
from rankzero.exercises.checks.report import Report, Result
from rankzero.grading.grade import Grade, Submission
from rankzero.grading.lab_digest import check_digests, commit, lab_digest


@dataclass(frozen=True)
class GradingTask:
    """A submission to grade: wholly, or only `checks` of it, where the other verdicts are those of `earlier`."""

    submission: Submission
    earlier: Grade | None = None
    checks: frozenset[str] = frozenset()


def matching_checks(labs: Sequence[Lab], patterns: Sequence[str]) -> frozenset[str]:
    """Returns the checks that patterns name: EXERCISE/CHECK, or EXERCISE for all of its checks.

    UserError for a pattern that names no check of these labs.
    """
    exercises = [exercise for lab in labs for exercise in exercises_of(lab)]
    matching: set[str] = set()
    for pattern in patterns:
        named = {
            check.name for exercise in exercises for check in exercise.checks if pattern in (exercise.name, check.name)
        }
        if not named:
            names = [exercise.name for exercise in exercises]
            names = [check.name for e in exercises if e.name == pattern.split("/")[0] for check in e.checks] or names
            raise UserError(f"--check {pattern}: there is no such check; there are {', '.join(names)}.")
        matching |= named
    return frozenset(matching)


def changed_checks(grade: Grade, lab: Lab) -> frozenset[str]:
    """Returns the checks of which the earlier verdict no longer holds, because what decides it has changed.

    Where only the known-wrong solutions of an exercise have changed, these are its failed checks.
    """
    if grade.report is None:
        return frozenset()
    digests = check_digests(lab)
    verdicts = {result.check: result.status for result in grade.report.results}
    changed: set[str] = set()
    for exercise in exercises_of(lab):
        same = digests[exercise.name] == grade.digests.get(exercise.name)
        for check in exercise.checks:
            explained = same or verdicts.get(check.name) in ("pass", "skipped")
            if check.name not in verdicts or digests[check.name] != grade.digests.get(check.name) or not explained:
                changed.add(check.name)
    return frozenset(changed)


def with_dependents(checks: Collection[str], lab: Lab) -> frozenset[str]:
    """Returns these checks and all that require one of them: what these say depends on it."""
    reached = set(checks)
    for exercise in exercises_of(lab):
        reached |= {check.name for check in exercise.checks if check.name in reached or reached & {*check.requires}}
    return frozenset(reached) if reached == set(checks) else with_dependents(reached, lab)


def exercises_to_run(checks: Collection[str], lab: Lab) -> list[Exercise]:
    """Returns the exercises with these checks, and those with checks that they require, in the lab's order."""
    all_checks = {check.name: (exercise, check) for exercise in exercises_of(lab) for check in exercise.checks}
    names: set[str] = set()

    def add(name: str) -> None:
        exercise, _ = all_checks[name]
        if exercise.name not in names:
            names.add(exercise.name)
            for check in exercise.checks:
                for required in check.requires:
                    add(required)

    for name in checks:
        add(name)
    return [exercise for exercise in exercises_of(lab) if exercise.name in names]


def rescored(grade: Grade, lab: Lab) -> Grade:
    """Returns the grade with the points that checks have now; verdicts stay. Checks that are no more are left out."""
    checks = {check.name: (exercise, check) for exercise in exercises_of(lab) for check in exercise.checks}
    max_points = sum(check.points for _, check in checks.values())
    if grade.report is None:
        return replace(grade, max_points=max_points)
    results = tuple(
        _scored(result, checks[result.check][1]) for result in grade.report.results if result.check in checks
    )
    report = replace(grade.report, results=results)
    return replace(grade, max_points=max_points, report=report)


def _scored(result: Result, check: Check) -> Result:
    return replace(result, points=check.points if result.status == "pass" else 0, max_points=check.points)


def merged(earlier: Grade, new: Grade, checks: Collection[str], lab: Lab) -> Grade:
    """Returns the new grade with the earlier verdicts of all checks but `checks`."""
    assert earlier.report
    if new.report is None:
        return new
    old_results = {result.check: result for result in earlier.report.results}
    new_results = {result.check: result for result in new.report.results}
    results, judged = [], {}
    for exercise in exercises_of(lab):
        for check in exercise.checks:
            is_new = check.name in checks or check.name not in old_results
            results.append(_scored((new_results if is_new else old_results)[check.name], check))
            judged[check.name] = (new if is_new else earlier).judged[check.name]
    touched = {exercise.name for exercise in exercises_of(lab) for check in exercise.checks if check.name in checks}
    diagnoses = [known for known in new.report.diagnoses if known.exercise in touched]
    diagnoses += [known for known in earlier.report.diagnoses if known.exercise not in touched]
    report = Report(lab.number, new.report.file, new.report.seed, tuple(results), tuple(diagnoses))
    return replace(new, report=report, judged=judged)


def stamped(grade: Grade, lab: Lab) -> Grade:
    """Returns the grade with the digests of the lab as it is now, and the repository's commit."""
    return replace(grade, digests=check_digests(lab), lab_digest=lab_digest(lab), commit=commit())
