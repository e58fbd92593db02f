"""Child program: a script that a command runs to its end, and how signals reach it."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rankzero.learn.runs import quiet_start

_STOPS = (signal.SIGINT, signal.SIGTERM)


def run_to_end(script: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs a Python script and returns its exit code; if a signal has ended it, the code that a shell reports.

    The script gets Ctrl-C from the terminal and SIGTERM from here, and may finish its step and save. Both signals are
    blocked until this process and the script have handlers for them: Ctrl-C at no moment ends in a traceback.
    """
    command = [sys.executable, quiet_start.__file__, str(script), *arguments]
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)  # quiet_start unblocks them in the script's process
    process = subprocess.Popen(command, env=environment)
    handlers = [lambda number, frame: None, lambda number, frame: process.send_signal(number)]
    before = [signal.signal(number, handler) for number, handler in zip(_STOPS, handlers, strict=True)]
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    try:
        code = process.wait()
    finally:
        for number, handler in zip(_STOPS, before, strict=True):
            signal.signal(number, handler)
    return code if code >= 0 else _shell_code(-code)


def _shell_code(number: int) -> int:
    """Says which signal has ended the program, and returns the exit code that a shell reports for it."""
    name = signal.Signals(number).name
    memory = ": the system sends it where memory runs out." if name == "SIGKILL" else "."
    print(f"rankzero: the program was ended by {name}{memory}", file=sys.stderr)
    return 128 + number
