"""Seed pool: the seeds on which each submission of a run is graded, which no student can predict."""

import hashlib
import hmac
import random
from dataclasses import dataclass

POOL = 16  # seeds per lab and generation; the reference runs once on each that is drawn
SEEDS = 3  # of a submission, by default


@dataclass(frozen=True)
class SeedPool:
    """The seeds of a run, made from its secret: the same run gives a submission the same seeds again.

    The seeds of a lab are a pool, so that the reference and the known-wrong solutions run once per seed of the pool
    and not once per student. The first seed of the pool is everybody's: mistakes are diagnosed on it. The others of a
    student are drawn from the pool by the student's id. A pool is as unpredictable as seeds for each student alone:

    - A seed follows from the secret by HMAC-SHA256, and the secret is on no page.
    - Pages show seeds only after every submission of the run was collected and graded. Then the run's `generation`
      grows, which makes another pool: a seed that stands on a page is never used again, for no student of the run.
    - A table of answers would have to hold the answers to three of two billion seeds.
    """

    secret: str = ""
    generation: int = 0
    count: int = SEEDS
    fixed: tuple[int, ...] = ()  # seeds that replace the pool, to reproduce a grade

    def of(self, lab: str, student_id: str) -> tuple[int, ...]:
        """Returns the seeds of one student in a lab, in the order in which they are used."""
        if self.fixed:
            return self.fixed
        pool = [self._number(lab, "pool", str(index)) for index in range(max(POOL, 4 * self.count))]
        common = pool[: self.count > 1]
        others = random.Random(self._number(lab, "student", student_id)).sample(pool[1:], self.count - len(common))
        return (*common, *others)

    def _number(self, *purpose: str) -> int:
        message = "\0".join((str(self.generation), *purpose)).encode("utf-8", "surrogatepass")
        return int.from_bytes(hmac.digest(self.secret.encode(), message, hashlib.sha256)[:8]) % 2**31


def seed_text(seeds: tuple[int, ...]) -> str:
    """Returns 'seed 7' or 'seeds 7, 11, 13'."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
