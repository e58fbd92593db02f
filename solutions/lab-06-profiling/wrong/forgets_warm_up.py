"""The first steps are counted too. They load libraries, make the optimizer's state and fill caches, so they are slower
than any step that follows, and of few profiled steps they are a large part: what you report is the start, not the
run."""

import statistics

from exercises import PHASES, merged

EXERCISE = "phase_fractions"
FAILS = (
    "phase_fractions/warm-up",
    "phase_fractions/threads",
    "phase_fractions/step-time",
)
READ = "handbook/profiling-and-roofline.md#before-you-measure"


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
    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))
    return share(spans, steps)
