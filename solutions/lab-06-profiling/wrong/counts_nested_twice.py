"""Durations are added up as they come. A range that lies inside another of the same phase is then counted twice, and so
is what two threads do at the same time: the fractions add up to more than 1. Merge the ranges first, then measure
what they cover."""

import statistics

from exercises import PHASES

EXERCISE = "phase_fractions"
FAILS = (
    "phase_fractions/nested",
    "phase_fractions/threads",
)
READ = "handbook/profiling-and-roofline.md#one-step-as-fractions"


def inside(ranges, steps):
    return sum(max(0, min(end, b) - max(start, a)) for start, end in ranges for a, b in steps)


def phase_fractions(events, warmup):
    spans = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "user_annotation"]
    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
    total = sum(end - start for start, end in steps)
    fractions = {}
    for phase in PHASES:
        ranges = [(start, end) for name, start, end in spans if name == phase]
        fractions[phase] = inside(ranges, steps) / total
    fractions["idle"] = 1 - sum(fractions.values())
    return statistics.median(end - start for start, end in steps) / 1000, fractions
