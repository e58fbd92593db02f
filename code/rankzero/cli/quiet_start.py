"""Quiet start: runs a script as `python SCRIPT` does, except that Ctrl-C while its libraries load is one line.

    python quiet_start.py SCRIPT [ARGUMENTS]

Python's own handler would print a traceback of the import. The script replaces the handler once it has loaded.
"""

import os
import signal
import sys
from types import FrameType


def stop(number: int, frame: FrameType | None) -> None:
    """Handles a signal: ends the process with one line and the exit code that a shell expects."""
    os.write(2, b"\nStopped by Ctrl-C.\n")
    os._exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, stop)
    del sys.argv[0]
    __file__ = sys.argv[0]  # by which processes that the script starts find its functions
    sys.path[0] = os.path.dirname(__file__)
    with open(__file__, "rb") as script:
        exec(compile(script.read(), __file__, "exec"))
