"""Each call replaces what the same operation's calls before had added up to. A matrix product is called dozens of times
in a step; all of them count."""

EXERCISE = "self_times"
FAILS = ("self_times/flat",)
READ = "handbook/profiling-and-roofline.md#reading-a-trace"


def measured_ops(events, warmup):
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in ranges if e["name"].startswith("ProfilerStep#"))[warmup:]
    ops = [e for e in events if e.get("cat") == "cpu_op"]
    return [op for op in ops if any(start <= op["ts"] < end for start, end in steps)]


def self_times(events, warmup):
    ops = sorted(measured_ops(events, warmup), key=lambda op: (op["tid"], op["ts"], -op["dur"]))
    return {op["name"]: (1, op["dur"] / 1000) for op in ops}
