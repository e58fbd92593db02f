"""Usable cores: how many processes this process may keep busy, by its affinity and its container's quota."""

import math
import os
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # "QUOTA PERIOD" in microseconds, or "max PERIOD"


def usable_cores(quota: Path = QUOTA) -> int:
    """Returns the number of cores that this process may use, at least 1; a share of a core counts as a core.

    It is smaller than the machine's number of cores under `taskset`, Slurm, or a container's limit.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        allowed, period = quota.read_text(encoding="ascii").split()
        return max(1, min(cores, math.ceil(int(allowed) / int(period))))
    except (OSError, ValueError, ZeroDivisionError):  # no control group, or no quota: "max"
        return cores
