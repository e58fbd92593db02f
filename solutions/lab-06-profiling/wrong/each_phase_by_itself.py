"""Each phase is merged by itself, but two phases that run at the same time both get that time. Data that a thread loads
while the model works costs the step nothing; counted in full it makes idle too small, even negative. One instant
belongs to one phase."""

import statistics

from exercises import PHASES, merged

EXERCISE = "phase_fractions"
FAILS = ("phase_fractions/threads",)
READ = "handbook/profiling-and-roofline.md#one-step-as-fractions"


def inside(ranges, steps):
    return sum(max(0, min(end, b) - max(start, a)) for start, end in ranges for a, b in steps)


def phase_fractions(events, warmup):
    spans = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "user_annotation"]
    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
    total = sum(end - start for start, end in steps)
    fractions = {}
    for phase in PHASES:
        ranges = merged([(start, end) for name, start, end in spans if name == phase])
        fractions[phase] = inside(ranges, steps) / total
    fractions["idle"] = 1 - sum(fractions.values())
    return statistics.median(end - start for start, end in steps) / 1000, fractions
