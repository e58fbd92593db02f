"""Events are chosen by name alone. A trace of a GPU holds each range twice: once as the host ran it, and once, of kind
"gpu_user_annotation", from its first kernel to its last, which end later. Phases and steps of both kinds are mixed
here."""

import statistics

from exercises import PHASES, merged

EXERCISE = "phase_fractions"
FAILS = (
    "phase_fractions/sequence",
    "phase_fractions/step-time",
)
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
    spans = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X"]
    steps = sorted((start, end) for name, start, end in spans if name.startswith("ProfilerStep#"))[warmup:]
    return share(spans, steps)
