"""`intervals.sort()` sorts the caller's own list. Whoever goes through it at the same time, or relies on its order,
gets another list than before. `sorted(intervals)` makes a new one."""

EXERCISE = "phase_fractions"
FAILS = ("phase_fractions/merged",)
READ = "handbook/profiling-and-roofline.md#one-step-as-fractions"


def merged(intervals):
    intervals.sort()
    whole = []
    for start, end in intervals:
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(whole[-1][1], end))
        else:
            whole.append((start, end))
    return whole
