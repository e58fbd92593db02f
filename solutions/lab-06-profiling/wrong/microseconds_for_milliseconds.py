"""The trace's own unit is returned. It is the microsecond; milliseconds were asked for."""

from exercises import self_times

EXERCISE = "self_times"
FAILS = ("self_times/flat",)
READ = "handbook/profiling-and-roofline.md#reading-a-trace"


reference = self_times


def self_times(events, warmup):
    return {name: (calls, 1000 * ms) for name, (calls, ms) in reference(events, warmup).items()}
