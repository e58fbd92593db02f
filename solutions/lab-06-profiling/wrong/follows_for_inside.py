"""An operation that begins exactly when another ends is taken for a part of it. It follows; nothing of it lies
inside."""

EXERCISE = "self_times"
FAILS = ("self_times/flat",)
READ = "handbook/profiling-and-roofline.md#reading-a-trace"


def measured_ops(events, warmup):
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in ranges if e["name"].startswith("ProfilerStep#"))[warmup:]
    ops = [e for e in events if e.get("cat") == "cpu_op"]
    return [op for op in ops if any(start <= op["ts"] < end for start, end in steps)]


def self_times(events, warmup):
    found = {}
    running = []
    for op in sorted(measured_ops(events, warmup), key=lambda op: (op["tid"], op["ts"], -op["dur"])):
        while running and (running[-1]["tid"] != op["tid"] or running[-1]["ts"] + running[-1]["dur"] < op["ts"]):
            running.pop()
        if running:
            calls, ms = found[running[-1]["name"]]
            found[running[-1]["name"]] = (calls, ms - op["dur"] / 1000)
        calls, ms = found.get(op["name"], (0, 0.0))
        found[op["name"]] = (calls + 1, ms + op["dur"] / 1000)
        running.append(op)
    return found
