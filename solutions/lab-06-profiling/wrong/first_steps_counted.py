"""The operations of the first steps are counted too. Calls and times a step then depend on how many steps were
profiled, and the slowest ones weigh most."""

from exercises import self_times

EXERCISE = "self_times"
FAILS = ("self_times/measured",)
READ = "handbook/profiling-and-roofline.md#before-you-measure"


reference = self_times


def self_times(events, warmup):
    return reference(events, 0)
