"""Class statistics: scores, histogram, lost points and known mistakes of one lab, for the class page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.report import Diagnosis, Report
from rankzero.grading.grade import Grade

HISTOGRAM_BINS = 10


@dataclass(frozen=True)
class CheckLoss:
    """The points that a class lost by one check."""

    check: str
    says: str
    failed: int  # submissions that fail it
    waits: int  # submissions where it was skipped, because an earlier check fails
    lost: int  # points, by both
    points: int  # per submission


@dataclass(frozen=True)
class ExerciseLoss:
    """The points that a class lost in one exercise."""

    exercise: str
    checks: tuple[CheckLoss, ...]

    @property
    def lost(self) -> int:
        """Returns the points over all submissions."""
        return sum(check.lost for check in self.checks)


@dataclass(frozen=True)
class Mistake:
    """A known mistake and the number of submissions that contain it."""

    diagnosis: Diagnosis
    count: int


@dataclass(frozen=True)
class LabStatistics:
    """One lab of a class. Scores, losses and mistakes include graded submissions only."""

    lab: Lab
    grades: tuple[Grade, ...]

    @cached_property
    def graded(self) -> list[Grade]:
        """Returns the grades with a report."""
        return [grade for grade in self.grades if grade.report and grade.gradable]

    @cached_property
    def missing(self) -> list[Grade]:
        """Returns the grades of students who handed in nothing usable."""
        return [grade for grade in self.grades if grade.gradable and not grade.report]

    @cached_property
    def not_gradable(self) -> list[Grade]:
        """Returns the grades where grading itself failed."""
        return [grade for grade in self.grades if not grade.gradable]

    @cached_property
    def unusable(self) -> list[Grade]:
        """Returns the grades of files that do not load."""
        return [grade for grade in self.graded if grade.report and grade.report.unusable]

    @cached_property
    def late(self) -> list[Grade]:
        """Returns the grades of late submissions, the latest first."""
        return sorted((grade for grade in self.graded if grade.late_days), key=lambda grade: -grade.late_days)

    @cached_property
    def unusual(self) -> list[Grade]:
        """Returns the grades that a person should look at, for their flags or notes."""
        return [grade for grade in self.grades if grade.flags or grade.submission.notes]

    @cached_property
    def slowest(self) -> list[Grade]:
        """Returns the five grades that took longest."""
        return sorted(self.graded, key=lambda grade: -grade.seconds)[:5]

    @property
    def max_points(self) -> int:
        """Returns the lab's points."""
        return max((grade.max_points for grade in self.grades), default=0)

    @cached_property
    def scores(self) -> list[float]:
        """Returns the score of each graded submission."""
        return [grade.score for grade in self.graded]

    @cached_property
    def median(self) -> float:
        """Returns the median score."""
        return median(self.scores) if self.scores else 0.0

    @cached_property
    def loaded(self) -> list[Report]:
        """Returns the reports of files that load: other reports tell nothing about single exercises."""
        return [grade.report for grade in self.graded if grade.report and not grade.report.unusable]

    @cached_property
    def losses(self) -> list[ExerciseLoss]:
        """Returns the lost points by exercise and check, in the lab's order."""
        failed, waits, lost = Counter[str](), Counter[str](), Counter[str]()
        for result in (result for report in self.loaded for result in report.results):
            failed[result.check] += result.status not in ("pass", "skipped")
            waits[result.check] += result.status == "skipped"
            lost[result.check] += result.max_points - result.points
        return [
            ExerciseLoss(
                exercise.name,
                tuple(
                    CheckLoss(
                        check.name, check.says, failed[check.name], waits[check.name], lost[check.name], check.points
                    )
                    for check in exercise.checks
                ),
            )
            for exercise in exercises_of(self.lab)
        ]

    @cached_property
    def mistakes(self) -> list[Mistake]:
        """Returns the known mistakes, the most frequent first."""
        counts = Counter(name for report in self.loaded for name in {mistake.name for mistake in report.diagnoses})
        known = {mistake.name: mistake for report in self.loaded for mistake in report.diagnoses}
        return [Mistake(known[name], counts[name]) for name in sorted(counts, key=lambda name: (-counts[name], name))]

    @cached_property
    def bins(self) -> list[int]:
        """Returns the histogram: the number of scores in each tenth of the points; full scores are the last bin."""
        counts = [0] * (HISTOGRAM_BINS + 1)
        for score in self.scores:
            counts[min(HISTOGRAM_BINS, int(score * HISTOGRAM_BINS / max(1, self.max_points)))] += 1
        return counts


def by_lab(grades: Sequence[Grade], labs: Sequence[Lab]) -> list[LabStatistics]:
    """Returns the statistics of each lab."""
    return [LabStatistics(lab, tuple(grade for grade in grades if grade.submission.lab == lab.number)) for lab in labs]
