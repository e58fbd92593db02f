"""Fingerprint of a run: date, commit, versions and hardware, which are needed to reproduce its numbers."""

import datetime
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import torch


def fingerprint(device: torch.device | None = None) -> dict[str, object]:
    """Returns date (UTC), git commit, versions and hardware as plain values, ready for JSON. Memory is in bytes."""
    facts: dict[str, object] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **git_commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cpu_cores": psutil.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "memory_bytes": psutil.virtual_memory().total,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
    if device is not None:
        facts["device"] = str(device)
    if torch.cuda.is_available():
        facts["gpu"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        facts["gpu_memory_bytes"] = torch.cuda.get_device_properties(0).total_memory
        facts["cuda"] = torch.version.cuda
    return facts


def git_commit(folder: Path = Path(__file__).parent) -> dict[str, object]:
    """Returns `commit`, and whether tracked files differ from it (`dirty`); both None outside a git checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-c", "safe.directory=*", *arguments]  # also where another user owns it
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=10)
        return result.stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}


def cpu_model() -> str:
    """Returns the processor's model name, as the operating system gives it."""
    try:
        if sys.platform == "linux":
            for line in Path("/proc/cpuinfo").read_text().splitlines():
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
        if sys.platform == "darwin":
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass
    return platform.processor() or platform.machine()
