"""A range belongs to the step in which it begins, with its whole length. One that reaches over the border of a step
then counts time in which nothing is measured, or another step's."""

import statistics

from exercises import PHASES, merged

EXERCISE = "phase_fractions"
FAILS = ("phase_fractions/threads",)
READ = "handbook/profiling-and-roofline.md#one-step-as-fractions"


def phase_fractions(events, warmup):
    spans = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "user_annotation"]
    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
    total = sum(end - start for start, end in steps)
    fractions, taken, before = {}, [], 0
    for phase in PHASES:
        taken += [
            (begin, stop)
            for name, begin, stop in spans
            if name == phase and any(start <= begin < end for start, end in steps)
        ]
        covered = sum(end - start for start, end in merged(taken))
        fractions[phase] = (covered - before) / total
        before = covered
    fractions["idle"] = 1 - before / total
    return statistics.median(end - start for start, end in steps) / 1000, fractions
