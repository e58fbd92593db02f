"""All the time that is spent on data is held against the step, even what another thread does while the model works.
Loading ahead is the cure; here it is diagnosed as the disease."""

from exercises import DATA_SHARE, SYNCS, TINY_MS, TINY_SHARE, phase_fractions, self_times

EXERCISE = "diagnose"
FAILS = ("diagnose/none",)
READ = "handbook/profiling-and-roofline.md#one-step-as-fractions"


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
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in ranges if e["name"].startswith("ProfilerStep#"))[warmup:]
    data = sum(e["dur"] for e in ranges if e["name"] == "data" and e["ts"] >= steps[0][0])
    if data > DATA_SHARE * sum(end - start for start, end in steps):
        return "starved loader"
    return verdict(events, warmup)
