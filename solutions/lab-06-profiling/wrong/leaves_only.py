"""Only operations that call no other are counted. What the callers do themselves, checks and the choice of a kernel for
example, is real time too: without it the sum is smaller than the time in which operations ran."""

EXERCISE = "self_times"
FAILS = ("self_times/nested",)
READ = "handbook/profiling-and-roofline.md#reading-a-trace"


def measured_ops(events, warmup):
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in ranges if e["name"].startswith("ProfilerStep#"))[warmup:]
    ops = [e for e in events if e.get("cat") == "cpu_op"]
    return [op for op in ops if any(start <= op["ts"] < end for start, end in steps)]


def self_times(events, warmup):
    ops = sorted(measured_ops(events, warmup), key=lambda op: (op["tid"], op["ts"], -op["dur"]))
    found = {op["name"]: (0, 0.0) for op in ops}
    for op, after in zip(ops, [*ops[1:], None], strict=True):
        calls, ms = found[op["name"]]
        inside = after and after["tid"] == op["tid"] and after["ts"] < op["ts"] + op["dur"]
        found[op["name"]] = (calls + 1, ms + (0 if inside else op["dur"] / 1000))
    return found
