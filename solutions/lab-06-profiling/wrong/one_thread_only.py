"""Only the thread that runs the steps is looked at. On a GPU, backward runs on a thread of autograd's own, and a loader
has its own too: their time is taken for idle."""

import statistics

from exercises import PHASES, merged

EXERCISE = "phase_fractions"
FAILS = ("phase_fractions/threads",)
READ = "handbook/profiling-and-roofline.md#reading-a-trace"


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
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    main = next(e["tid"] for e in ranges if e["name"].startswith("ProfilerStep#"))
    spans = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in ranges if e["tid"] == main]
    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
    return share(spans, steps)
