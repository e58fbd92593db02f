"""Claims of handbook/checkpoints-and-faults.md: how often to save, and what stops cost."""

import math
import random
from collections.abc import Mapping

from rankzero.figures.content.checkpoints_and_faults import (
    JOBS,
    LLAMA_FAILURES,
    LLAMA_GPUS,
    LLAMA_HOURS,
    MINUTE,
    SECOND,
    TRAINING,
)

from rankzero.claims.claim import claim
from rankzero.ledger.interruptions import Interruptions, young

LLAMA = "[Llama 3](https://arxiv.org/abs/2407.21783)"
DALY = "[Daly](https://doi.org/10.1016/j.future.2004.11.016), figures 3 to 5"


@claim(
    "llama-failures",
    "{expected[hours between failures]:.2f} hours between unexpected interruptions of 16,384 GPUs are one per GPU in "
    "{expected[years per GPU]:.1f} years, and one per machine of 8 GPUs in {expected[days per machine]:.0f} days.",
    expected={"hours between failures": 3.09, "years per GPU": 5.78, "days per machine": 264},
    unit="",
    tolerance=0.1,
    source=LLAMA,
)
def llama_failures() -> Mapping[str, float]:
    """Divides 54 days by 419 interruptions; the mean time of one GPU is 16,384 times that of all, of 8 GPUs 2,048."""
    between = LLAMA_HOURS / LLAMA_FAILURES
    return {
        "hours between failures": between,
        "years per GPU": between * LLAMA_GPUS / 24 / 365.25,
        "days per machine": between * LLAMA_GPUS / 8 / 24,
    }


@claim(
    "llama-interval",
    "For saves of 30 s and a failure every 3.09 hours, the square root says {expected[square root, minutes]} minutes, "
    "the exact minimum is at {expected[exact, minutes]}; both lose {expected[lost, %]} % of the machine time.",
    expected={"square root, minutes": 13.6, "exact, minutes": 13.3, "lost, %": 7.72, "lost at the exact one, %": 7.71},
    unit="",
    tolerance=0.05,
)
def llama_interval() -> Mapping[str, float]:
    """Evaluates the formula of the expected time at the square root, and searches its minimum."""
    save, between = 30 * SECOND, LLAMA_HOURS / LLAMA_FAILURES
    failures = Interruptions(save, failures=1 / between)
    exact, root = failures.best_interval(), young(save, between)
    return {
        "square root, minutes": 60 * root,
        "exact, minutes": 60 * exact,
        "lost, %": 100 * (failures.machine_time(root) - 1),
        "lost at the exact one, %": 100 * (failures.machine_time(exact) - 1),
    }


@claim(
    "daly-three-systems",
    "For saves of 5 minutes and failures every 24 hours, 6 hours and 15 minutes, the expected time is least at "
    "{expected[24 h]}, {expected[6 h]} and {expected[15 min]} minutes between saves.",
    expected={"24 h": 117, "6 h": 57, "15 min": 9.1},
    unit="minutes",
    tolerance=0.5,
    source=DALY,
)
def daly_three_systems() -> Mapping[str, float]:
    """Searches the minimum of the expected time for the three systems of the paper, with restarts of 10 minutes."""
    between = {"24 h": 24.0, "6 h": 6.0, "15 min": 0.25}
    return {
        name: 60 * Interruptions(5 * MINUTE, 10 * MINUTE, failures=1 / hours).best_interval()
        for name, hours in between.items()
    }


def simulated(
    hours: float, interval: float, save: float, restart: float, failures: float, preemptions: float, notice: float
) -> float:
    """Machine time per hour of one simulated run: stops come at random, and each event adds its time to a clock."""
    draw = random.Random(0)
    clock = saved = unsaved = 0.0
    until = {kind: draw.expovariate(rate) if rate else math.inf for kind, rate in
             (("failure", failures), ("preemption", preemptions))}  # fmt: skip
    while saved < hours:
        left = interval + save - unsaved  # of this segment: work, then the save
        kind = min(until, key=until.__getitem__)
        ran = min(left, until[kind])
        clock += ran
        for each in until:
            until[each] -= ran
        if ran == left:
            saved, unsaved = saved + interval, 0.0
            continue
        if kind == "preemption" and notice >= save:
            saved += min(unsaved + ran, interval)
            clock += save
        clock, unsaved = clock + restart, 0.0
        until[kind] = draw.expovariate(failures if kind == "failure" else preemptions)
    return clock / saved


@claim(
    "expected-time-simulated",
    "The formula of the expected time is within 1 % of a simulated run: failures alone, preemptions without time to "
    "save, and preemptions with a save within the notice.",
    expected={"failures": 1, "notice too short": 1, "notice long enough": 1, "frequent failures": 1},
    unit="simulated over formula",
    tolerance=0.01,
)
def expected_time_simulated() -> Mapping[str, float]:
    """Simulates runs of 50,000 stops with random times between stops, event by event, and divides by the formula."""
    cases = {
        "failures": (1.0, 60 * SECOND, 5 * MINUTE, 1 / 8, 0.0, 0.0),
        "notice too short": (0.5, 60 * SECOND, 5 * MINUTE, 1 / 400, 1 / 6, 30 * SECOND),
        "notice long enough": (2.0, 60 * SECOND, 5 * MINUTE, 1 / 40, 1 / 6, 120 * SECOND),
        "frequent failures": (0.15, 5 * MINUTE, 10 * MINUTE, 4.0, 0.0, 0.0),
    }
    ratios = {}
    for name, (interval, save, restart, failures, preemptions, notice) in cases.items():
        hours = 50_000 / (failures + preemptions) / (5 if name == "frequent failures" else 1)
        run = simulated(hours, interval, save, restart, failures, preemptions, notice)
        ratios[name] = run / Interruptions(save, restart, failures, preemptions, notice).machine_time(interval)
    return ratios


@claim(
    "spot-dollars",
    "100 hours of training at 40 dollars per hour on demand cost {expected[on demand]:,} dollars at best; at 16 "
    "dollars with a preemption every 6 hours {expected[spot, 30 s of notice]:,} if a save of 60 s does not fit into "
    "the notice, {expected[spot, 120 s of notice]:,} if it does.",
    expected={"on demand": 4038, "spot, 30 s of notice": 1751, "spot, 120 s of notice": 1639},
    unit="dollars",
    tolerance=1,
)
def spot_dollars() -> Mapping[str, float]:
    """Evaluates the formula of the expected time at the best interval of each job; restarts take 5 min."""
    return {name: job.dollars(job.best_interval(), TRAINING, price) for name, (price, job) in JOBS.items()}
