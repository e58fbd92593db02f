"""The first steps are diagnosed with the rest. They open files, start threads and make the optimizer's state, so what
they suffer from is not what the run suffers from."""

from exercises import diagnose

EXERCISE = "diagnose"
FAILS = (
    "diagnose/starved",
    "diagnose/sync",
    "diagnose/tiny",
)
READ = "handbook/profiling-and-roofline.md#before-you-measure"


reference = diagnose


def diagnose(events, warmup):
    return reference(events, 0)
