"""Idle is taken for the time between one step and the next. That is where nothing is measured; the time that is lost
lies inside the step, between its phases. The fractions do not add up to 1, which shows it."""

import statistics

from exercises import PHASES, merged

EXERCISE = "phase_fractions"
FAILS = ("phase_fractions/sequence",)
READ = "handbook/profiling-and-roofline.md#one-step-as-fractions"


def share(spans, steps, order=PHASES):
    total = sum(end - start for start, end in steps)
    fractions, taken, before = {}, [], 0
    for phase in order:
        taken += [(start, end) for name, start, end in spans if name == phase]
        covered = sum(max(0, min(end, b) - max(start, a)) for start, end in merged(taken) for a, b in steps)
        fractions[phase] = (covered - before) / total
        before = covered
    fractions["idle"] = 1 - before / total
    return statistics.median(end - start for start, end in steps) / 1000, fractions


def phase_fractions(events, warmup):
    spans = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "user_annotation"]
    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
    step_ms, fractions = share(spans, steps)
    total = sum(end - start for start, end in steps)
    fractions["idle"] = sum(steps[i + 1][0] - steps[i][1] for i in range(len(steps) - 1)) / total
    return step_ms, fractions
