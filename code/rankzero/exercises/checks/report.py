"""Report: the verdicts and diagnoses of one checked file, as plain data."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Result:
    """The verdict on one check. `status`: pass, fail, error, timeout, oom, killed or skipped."""

    check: str
    exercise: str
    status: str
    points: int  # earned
    max_points: int
    text: str = ""  # a sentence about the mistake
    printed: str = ""  # the beginning of the output of the learner's code
    todo: bool = False  # whether it failed because a function is not written yet
    needs: str = ""  # the exercise whose function is missing from the file, so that the check could not run


@dataclass(frozen=True)
class Diagnosis:
    """A misconception that a learner's answers match."""

    exercise: str
    name: str
    explanation: str
    read: str
    fails: tuple[str, ...] = ()  # the checks that this misconception fails
    together: bool = False  # whether only this one and the exercise's other one at once give the learner's answers

    def explains(self, check: str) -> bool:
        """Returns whether this misconception explains why `check` fails."""
        return self.together or check in self.fails


@dataclass(frozen=True)
class Report:
    """All verdicts on one file, as plain data."""

    lab: str
    file: str
    seed: int
    results: tuple[Result, ...]
    diagnoses: tuple[Diagnosis, ...]
    unusable: str = ""  # the error, if the file does not load; its source line may follow on lines of their own

    @property
    def points(self) -> int:
        """Returns the points earned over all checks."""
        return sum(result.points for result in self.results)

    @property
    def max_points(self) -> int:
        """Returns the points that all checks could earn."""
        return sum(result.max_points for result in self.results)

    def by_exercise(self) -> dict[str, int]:
        """Returns the points that each exercise earned."""
        return {
            name: sum(result.points for result in self.results if result.exercise == name)
            for name in dict.fromkeys(result.exercise for result in self.results)
        }

    def as_json(self) -> str:
        """Returns the report as JSON."""
        return json.dumps(asdict(self) | {"points": self.points, "max_points": self.max_points}, indent=2)
