"""Worker processes of a search: further processes of the same script, which join its study."""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rankzero.learn.runs.stop_request import StopRequest

LOOK_S = 0.05  # between two looks at the processes


def settings_words(options: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Returns some options as words of a command line."""
    return [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]


def start_others(
    script: str, options: argparse.Namespace, names: Sequence[str], storage: Path
) -> list["subprocess.Popen[bytes]"]:
    """Starts `options.workers` - 1 processes that add trials to the study in `storage`, with the same `names`."""
    words = [*settings_words(options, [*names, "trials", "device"]), "--join", f"--storage={storage}"]
    return [subprocess.Popen([sys.executable, script, *words]) for _ in range(1, options.workers)]


def wait_for(others: Sequence["subprocess.Popen[bytes]"], stop: StopRequest) -> None:
    """Waits for the end of processes, and passes a request to stop on to them."""
    passed_on = False
    while any(other.poll() is None for other in others):
        if stop and not passed_on:
            passed_on = True
            for other in others:
                other.terminate()  # does nothing to one that has ended
        time.sleep(LOOK_S)
