"""Many calls are taken for tiny calls. A large model has many operations and each of them may be large; what wastes
time is that most of it goes into calls too short to be worth making."""

from exercises import DATA_SHARE, SYNCS, TINY_MS, TINY_SHARE, phase_fractions, self_times

EXERCISE = "diagnose"
FAILS = ("diagnose/none",)
READ = "handbook/profiling-and-roofline.md#from-symptom-to-cause"


def verdict(events, warmup, operations=None, reads=None):
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    steps = sum(e["name"].startswith("ProfilerStep#") for e in ranges) - warmup
    operations = operations or self_times(events, warmup)
    reads = reads or (lambda ops, steps: ops.get("aten::_local_scalar_dense", (0, 0.0))[0] / steps)
    if phase_fractions(events, warmup)[1]["data"] > DATA_SHARE:
        return "starved loader"
    if reads(operations, steps) >= SYNCS:
        return "sync every step"
    tiny = sum(ms for calls, ms in operations.values() if ms / calls < TINY_MS)
    return "many tiny ops" if tiny > TINY_SHARE * sum(ms for _, ms in operations.values()) else "none of these"


def diagnose(events, warmup):
    found = verdict(events, warmup)
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    steps = sum(e["name"].startswith("ProfilerStep#") for e in ranges) - warmup
    calls = sum(calls for calls, _ in self_times(events, warmup).values())
    return "many tiny ops" if found == "none of these" and calls / steps > 100 else found
