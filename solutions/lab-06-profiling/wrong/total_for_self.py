"""That is total time. An operation's total holds the time of every operation that it calls, so the same instant counts
at each level, and the sum is several times the step. A table sorted by it puts the callers on top, not the work."""

EXERCISE = "self_times"
FAILS = ("self_times/nested",)
READ = "handbook/profiling-and-roofline.md#reading-a-trace"


def measured_ops(events, warmup):
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in ranges if e["name"].startswith("ProfilerStep#"))[warmup:]
    ops = [e for e in events if e.get("cat") == "cpu_op"]
    return [op for op in ops if any(start <= op["ts"] < end for start, end in steps)]


def self_times(events, warmup):
    found = {}
    for op in measured_ops(events, warmup):
        calls, ms = found.get(op["name"], (0, 0.0))
        found[op["name"]] = (calls + 1, ms + op["dur"] / 1000)
    return found
