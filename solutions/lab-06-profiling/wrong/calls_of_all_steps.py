"""The calls of all measured steps together are compared with a limit that is meant for one. Profile twice as many steps
and a healthy run falls ill."""

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
    return verdict(events, warmup, reads=lambda ops, steps: ops.get("aten::_local_scalar_dense", (0, 0.0))[0])
