"""Claim of handbook/profiling.md: the answers of the chapter's problems."""

from collections.abc import Mapping

from rankzero.claims.claim import claim


@claim(
    "profiling-problem-answers",
    "Parts of 30 % and 50 % that get 3 and 1.5 times as fast make the step {expected[A]:.2f} and {expected[B]:.2f} "
    "times as fast, together {expected[both]:.2f} times. With a loader of 8.5 ms beside it, a model that takes 4.5 ms "
    "instead of 9 ms makes the step {expected[hidden]:.2f} times as fast, and data {expected[data, %]:.0f} % of it. "
    "Short calls that take {expected[short, %]:.1f} % of a step take {expected[short in the profile, %]:.0f} % of its "
    "profile. A part that falls from 30 % to 10 % of the step is {expected[part]:.2f} times as fast, and the step "
    "{expected[step]:.2f} times.",
    expected={
        "A": 1.25, "B": 1.2, "both": 1.579, "hidden": 1.059, "data, %": 47.06, "short, %": 16.765,
        "short in the profile, %": 25, "step": 1.286, "part": 3.857,
    },
    tolerance=0.005,
    unit="as named",
)  # fmt: skip
def problem_answers() -> Mapping[str, float]:
    """Computes the answers from the numbers of the problems: fractions, ms, and µs of 2,000 and 1,900 calls."""
    new_step = 0.7 / 0.9  # of the old step, of which the other parts were 0.7
    return {
        "A": 1 / (0.7 + 0.3 / 3),
        "B": 1 / (0.5 + 0.5 / 1.5),
        "both": 1 / (0.2 + 0.3 / 3 + 0.5 / 1.5),
        "hidden": max(9, 8.5) / max(4.5, 8.5),
        "data, %": 100 * (8.5 - 4.5) / 8.5,
        "short, %": 100 * 1900 * 3 / 34_000,
        "short in the profile, %": 100 * 1900 * (3 + 2) / (34_000 + 2 * 2000),
        "step": 1 / new_step,
        "part": 0.3 / (0.1 * new_step),
    }
