"""Quiet start: runs a script as `python SCRIPT` does, except for Ctrl-C while it loads, and the end of its parent.

    python quiet_start.py SCRIPT [ARGUMENTS]

Python's own handler of Ctrl-C would print a traceback of the import; here it is one line, until the script has a
handler of its own. On Linux the script gets SIGTERM when its parent process is killed, so that it does not train on
unnoticed.
"""

import ctypes
import os
import signal
import sys
from types import FrameType


def stop(number: int, frame: FrameType | None) -> None:
    """Handles a signal: ends the process with one line and the exit code that a shell expects."""
    os.write(2, b"\nStopped by Ctrl-C.\n")
    os._exit(128 + number)


def stop_with_parent() -> None:
    """Makes the kernel send SIGTERM to this process when its parent process ends. Linux alone can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    stop_with_parent()
    signal.signal(signal.SIGINT, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])  # a parent may have blocked them
    del sys.argv[0]
    __file__ = sys.argv[0]  # by which processes that the script starts find its functions
    sys.path[0] = os.path.dirname(__file__)
    with open(__file__, "rb") as script:
        exec(compile(script.read(), __file__, "exec"))
