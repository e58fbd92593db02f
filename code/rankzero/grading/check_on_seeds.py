"""Checks on several seeds: a check passes only if it passes on each of them, and stops at its first failure."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Exercise
from rankzero.exercises.checks.probe_client import ProbeClient, Reply
from rankzero.exercises.checks.report import Diagnosis, Report, Result
from rankzero.exercises.checks.runner import check_file

Replies = dict[tuple[str, int], Reply]  # by probe and seed


def check_on_seeds(
    lab: Lab,
    file: Path,
    exercises: Sequence[Exercise],
    seeds: Sequence[int],
    *,
    client: ProbeClient,
    trusted_client: ProbeClient,
    progress: Callable[[str], None],
) -> tuple[Report, dict[str, tuple[int, ...]]]:
    """Returns the report, and for each check the seeds on which it was judged, which end with its first failure.

    A failed exercise is diagnosed on one seed, the first on which it fails. Arguments are as for `check_file`.
    """
    results: dict[str, Result] = {}
    diagnoses: list[Diagnosis] = []
    judged: dict[str, tuple[int, ...]] = {}
    unusable, passing = "", list(exercises)
    for index, seed in enumerate(seeds):
        if index < 2:  # one process for the first seed, where most mistakes show, and one for all other seeds
            _ask_together(lab, file, passing, seeds[:1] if index == 0 else seeds[1:], client, trusted_client)
        report = check_file(
            lab, file, tuple(passing), seed=seed, client=client, trusted_client=trusted_client, progress=progress
        )
        diagnosed = {diagnosis.exercise for diagnosis in diagnoses}
        diagnoses += [diagnosis for diagnosis in report.diagnoses if diagnosis.exercise not in diagnosed]
        results |= {result.check: result for result in report.results}
        judged |= {result.check: (*judged.get(result.check, ()), seed) for result in report.results}
        unusable = unusable or report.unusable
        if not (passing := _passing(passing, results)):
            break
    return Report(lab.number, str(file), seeds[0], tuple(results.values()), tuple(diagnoses), unusable), judged


def _passing(exercises: Sequence[Exercise], results: dict[str, Result]) -> list[Exercise]:
    """Returns the exercises with only the checks that pass so far, each with the time limit of its exercise."""
    passing = []
    for exercise in exercises:
        seconds = max(check.seconds for check in exercise.checks)
        checks = [check for check in exercise.checks if results[check.name].status == "pass"]
        if checks:
            passing.append(replace(exercise, checks=tuple(replace(check, seconds=seconds) for check in checks)))
    return passing


def _ask_together(
    lab: Lab,
    file: Path,
    exercises: Sequence[Exercise],
    seeds: Sequence[int],
    client: ProbeClient,
    trusted_client: ProbeClient,
) -> None:
    """Runs the probes of all exercises in one process, and caches the replies of each exercise that passes.

    A process per exercise would take most of the time of grading. But an exercise must not lose points by what another
    exercise did to the process. So where a check does not pass, the exercise runs again in a process of its own.
    """
    references = trusted_client.ask_together(lab, lab.reference, exercises, seeds, trusted=True)
    answered = {asked: reply for asked, reply in references.items() if reply.status == "answered"}
    trusted_client.remember(lab.reference, answered)
    replies = client.ask_together(lab, file, exercises, seeds)
    if (first := next(iter(replies.values()), None)) and first.loading:  # not if only a later load fails
        asked = [(check.probe, seed) for exercise in exercises for check in exercise.checks for seed in seeds]
        client.remember(file, dict.fromkeys(asked, first))
        return
    for exercise in exercises:
        for seed in seeds:
            own = {(check.probe, seed): replies.get((check.probe, seed)) for check in exercise.checks}
            settled = {asked: replace(reply, printed="") for asked, reply in own.items() if reply}
            if len(settled) == len(own) and (_all_todo(settled) or _all_pass(exercise, seed, settled, answered)):
                client.remember(file, settled)


def _all_todo(replies: Replies) -> bool:
    return all(reply.status == "todo" for reply in replies.values())


def _all_pass(exercise: Exercise, seed: int, replies: Replies, references: Replies) -> bool:
    for check in exercise.checks:
        asked = (check.probe, seed)
        if replies[asked].status != "answered" or asked not in references:
            return False
        try:
            if check.judge(dict(replies[asked].answers), references[asked].answers):
                return False
        except Exception:  # the answers are forged
            return False
    return True
