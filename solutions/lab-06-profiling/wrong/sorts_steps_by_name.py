"""The steps are sorted by their names. As text, "ProfilerStep#10" comes before "ProfilerStep#9", so the steps that are
dropped as warm-up are not the first ones. Sort by time."""

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
    named = sorted(span for span in spans if span[0].startswith("ProfilerStep#"))
    return share(spans, [(start, end) for _, start, end in named][warmup:])
