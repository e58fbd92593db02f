"""Time limits: wall-clock limits that are longer where many processes share the cores."""

import os

SHARING = 2  # runnable processes per core with which a correct solution meets its time limit


def stretched(seconds: float) -> float:
    """Returns the limit in seconds for work that takes at most `seconds` on a machine with little else to do.

    Where more than `SHARING` processes per core were runnable in the last minute, the limit grows in proportion.
    """
    return round(seconds * max(1.0, os.getloadavg()[0] / (SHARING * (os.cpu_count() or 1))), 1)
