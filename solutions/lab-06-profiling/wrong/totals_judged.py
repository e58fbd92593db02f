"""Total times are compared. The large operations count again in each operation that calls them, which makes the share
of the tiny ones look smaller than it is."""

from exercises import DATA_SHARE, SYNCS, TINY_MS, TINY_SHARE, phase_fractions, self_times

EXERCISE = "diagnose"
FAILS = ("diagnose/tiny",)
READ = "handbook/profiling-and-roofline.md#reading-a-trace"


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
    totals = {}
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    begin = sorted(e["ts"] for e in ranges if e["name"].startswith("ProfilerStep#"))[warmup]
    for op in events:
        if op.get("cat") == "cpu_op" and op["ts"] >= begin:
            calls, ms = totals.get(op["name"], (0, 0.0))
            totals[op["name"]] = (calls + 1, ms + op["dur"] / 1000)
    return verdict(events, warmup, operations=totals)
