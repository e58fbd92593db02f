"""Class statistics: scores, histogram, lost points and known mistakes of one lab, for the class page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.report import Diagnosis, Report
from rankzero.grading.grade import Flag, Grade
from rankzero.grading.intake.time_notes import other_notes

HISTOGRAM_BINS = 10


@dataclass(frozen=True)
class CheckLoss:
    """The points that a class lost by one check."""

    says: str
    failed: int  # submissions that fail the check
    blocked: int  # submissions in which the check was skipped, because an earlier check fails
    lost: int  # points, by failed and blocked checks


@dataclass(frozen=True)
class LabStatistics:
    """One lab of a class. Scores, losses and mistakes include graded submissions only."""

    lab: Lab
    max_points: int
    graded: list[Grade]  # with a report
    missing: list[Grade]  # of students who handed in nothing
    doubtful: list[Grade]  # of students who handed in something, or may have, of which nothing can be graded
    not_gradable: list[Grade]  # where grading itself failed
    adjusted: list[Grade]  # by people
    unusable: list[Grade]  # of files that do not load
    late: list[Grade]  # the latest first
    unusual: list[Grade]  # with flags or notes that concern them alone, for a person to read
    notes: list[tuple[str, list[Grade]]]  # of collecting the files, with those who have them; doubtful ones apart
    flags: list[tuple[str, list[tuple[Grade, Flag]]]]  # by kind
    slowest: list[Grade]  # the five that took longest
    scores: list[float]  # of the graded submissions, and by people
    median: float
    bins: list[int]  # the number of scores in each tenth of the points; full scores are the last bin
    loaded: list[Report]  # of files that load: other reports contain no results of single exercises
    losses: dict[str, list[CheckLoss]]  # by exercise, in the lab's order
    mistakes: list[tuple[Diagnosis, int]]  # known mistakes and their numbers of submissions, most frequent first


def lab_statistics(lab: Lab, grades: Sequence[Grade]) -> LabStatistics:
    """Returns the statistics of a lab from its grades."""
    max_points = max((grade.max_points for grade in grades), default=0)
    graded = [grade for grade in grades if grade.report and grade.gradable]
    scores = [grade.score for grade in grades if (grade.gradable and grade.report) or grade.decided]
    bins = Counter(min(HISTOGRAM_BINS, int(score * HISTOGRAM_BINS / max(1, max_points))) for score in scores)
    loaded = [grade.report for grade in graded if grade.report and not grade.report.unusable]
    known = {diagnosis.name: diagnosis for report in loaded for diagnosis in report.diagnoses}
    counts = Counter(name for report in loaded for name in {diagnosis.name for diagnosis in report.diagnoses})
    return LabStatistics(
        lab,
        max_points,
        graded,
        missing=[grade for grade in grades if grade.gradable and not grade.report and grade.counts],
        doubtful=[grade for grade in grades if grade.gradable and not grade.counts],
        not_gradable=[grade for grade in grades if not (grade.gradable or grade.counts)],
        adjusted=[grade for grade in grades if grade.adjustments],
        unusable=[grade for grade in graded if grade.report and grade.report.unusable],
        late=sorted((grade for grade in graded if grade.late_days), key=lambda grade: -grade.late_days),
        unusual=[grade for grade in grades if grade.counts and (grade.flags or other_notes(grade.submission))],
        notes=_notes(grades),
        flags=_flags(grades),
        slowest=sorted(graded, key=lambda grade: -grade.seconds)[:5],
        scores=scores,
        median=median(scores) if scores else 0.0,
        bins=[bins[number] for number in range(HISTOGRAM_BINS + 1)],
        loaded=loaded,
        losses=_losses(lab, loaded),
        mistakes=[(known[name], counts[name]) for name in sorted(counts, key=lambda name: (-counts[name], name))],
    )


def _notes(grades: Sequence[Grade]) -> list[tuple[str, list[Grade]]]:
    """Returns the notes, those of most submissions first."""
    by_text: dict[str, list[Grade]] = {}
    for grade in grades:
        for note in grade.submission.notes if grade.counts else ():
            by_text.setdefault(note, []).append(grade)
    return sorted(by_text.items(), key=lambda item: -len(item[1]))


def _flags(grades: Sequence[Grade]) -> list[tuple[str, list[tuple[Grade, Flag]]]]:
    """Returns the flags by kind, rare kinds first: a flag of half the class is seldom news."""
    by_kind: dict[str, list[tuple[Grade, Flag]]] = {}
    for grade in grades:
        for flag in grade.flags:
            by_kind.setdefault(flag.kind, []).append((grade, flag))
    return sorted(by_kind.items(), key=lambda item: (len(item[1]), item[0]))


def _losses(lab: Lab, reports: Sequence[Report]) -> dict[str, list[CheckLoss]]:
    failed, skips, lost = Counter[str](), Counter[str](), Counter[str]()
    for result in (result for report in reports for result in report.results):
        failed[result.check] += result.status not in ("pass", "skipped")
        skips[result.check] += result.status == "skipped"
        lost[result.check] += result.max_points - result.points
    return {
        exercise.name: [
            CheckLoss(check.says, failed[check.name], skips[check.name], lost[check.name]) for check in exercise.checks
        ]
        for exercise in exercises_of(lab)
    }
