"""What a class as a whole got right and wrong in one lab: the figures of the class page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.report import Diagnosis, Report
from rankzero.grading.grade import Grade

BINS = 10


@dataclass(frozen=True)
class CheckLoss:
    """What one check cost the class."""

    check: str
    says: str
    failed: int  # submissions that do not pass it, by a mistake of its own
    waits: int  # and those where it waits for another
    lost: int  # points, over both
    points: int  # that one submission can have


@dataclass(frozen=True)
class ExerciseLoss:
    """What one exercise cost the class."""

    exercise: str
    checks: tuple[CheckLoss, ...]

    @property
    def lost(self) -> int:
        """Points, over all submissions."""
        return sum(check.lost for check in self.checks)


@dataclass(frozen=True)
class Mistake:
    """A known mistake, and how many submissions hold it."""

    diagnosis: Diagnosis
    count: int


@dataclass(frozen=True)
class LabStatistics:
    """One lab of a class. Only what was graded counts in scores, losses and mistakes."""

    lab: Lab
    grades: tuple[Grade, ...]

    @cached_property
    def graded(self) -> list[Grade]:
        """With a report."""
        return [grade for grade in self.grades if grade.report and grade.gradable]

    @cached_property
    def missing(self) -> list[Grade]:
        """Nothing usable was handed in."""
        return [grade for grade in self.grades if grade.gradable and not grade.report]

    @cached_property
    def not_gradable(self) -> list[Grade]:
        """Grading itself failed."""
        return [grade for grade in self.grades if not grade.gradable]

    @cached_property
    def unusable(self) -> list[Grade]:
        """Graded, but the file does not load."""
        return [grade for grade in self.graded if grade.report and grade.report.unusable]

    @cached_property
    def late(self) -> list[Grade]:
        """Graded, but handed in after the deadline; the latest first."""
        return sorted((grade for grade in self.graded if grade.late_days), key=lambda grade: -grade.late_days)

    @cached_property
    def unusual(self) -> list[Grade]:
        """What a person should look at: flags, and notes of collecting."""
        return [grade for grade in self.grades if grade.flags or grade.submission.notes]

    @cached_property
    def slowest(self) -> list[Grade]:
        """The five that took longest to grade."""
        return sorted(self.graded, key=lambda grade: -grade.seconds)[:5]

    @property
    def max_points(self) -> int:
        """To be had."""
        return max((grade.max_points for grade in self.grades), default=0)

    @cached_property
    def scores(self) -> list[float]:
        """What counts, of each that was graded."""
        return [grade.score for grade in self.graded]

    @cached_property
    def median(self) -> float:
        """Half of the scores are at most this."""
        return median(self.scores) if self.scores else 0.0

    @cached_property
    def loaded(self) -> list[Report]:
        """Reports of files that load: one that does not says nothing of any exercise."""
        return [grade.report for grade in self.graded if grade.report and not grade.report.unusable]

    @cached_property
    def losses(self) -> list[ExerciseLoss]:
        """By exercise and check, in the lab's order."""
        failed, waits, lost = Counter[str](), Counter[str](), Counter[str]()
        for result in (result for report in self.loaded for result in report.results):
            failed[result.check] += result.status not in ("pass", "skipped")
            waits[result.check] += result.status == "skipped"
            lost[result.check] += result.max_points - result.points
        return [
            ExerciseLoss(
                exercise.name,
                tuple(
                    CheckLoss(one.name, one.says, failed[one.name], waits[one.name], lost[one.name], one.points)
                    for one in exercise.checks
                ),
            )
            for exercise in exercises_of(self.lab)
        ]

    @cached_property
    def mistakes(self) -> list[Mistake]:
        """Known mistakes, the most common first."""
        found = Counter(one.name for report in self.loaded for one in {d.name: d for d in report.diagnoses}.values())
        known = {one.name: one for report in self.loaded for one in report.diagnoses}
        return [
            Mistake(known[name], count) for name, count in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
        ]

    @cached_property
    def bins(self) -> list[int]:
        """How many scores fall into each tenth of the points; full marks are the last bin, by themselves."""
        counts = [0] * (BINS + 1)
        for score in self.scores:
            counts[min(BINS, int(score * BINS / max(1, self.max_points)))] += 1
        return counts


def by_lab(grades: Sequence[Grade], labs: Sequence[Lab]) -> list[LabStatistics]:
    """The statistics of each lab of `labs`."""
    return [LabStatistics(lab, tuple(one for one in grades if one.submission.lab == lab.number)) for lab in labs]
