"""Quiet start: runs a script as `python SCRIPT` does, except for Ctrl-C while it loads, and the end of its parent.

    python quiet_start.py SCRIPT [ARGUMENTS]
    python quiet_start.py -m MODULE [ARGUMENTS]

Python's own handler of Ctrl-C would print a traceback of the import; here it is one line, until the script has a
handler of its own. On Linux the script gets SIGTERM when its parent process is killed, so that it does not train on
unnoticed.
"""

import os
import sys

TYPE_CHECKING = False  # not from `typing`, whose import takes milliseconds in which Ctrl-C has no handler yet
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def stop(
    number: int,
    frame: "FrameType | None",
    write: "Callable[[int, bytes], int]" = os.write,  # here, for the interpreter's clean-up empties modules
    leave: "Callable[[int], object]" = os._exit,
) -> None:
    """Handles a signal: ends the process with one line and the exit code that a shell expects."""
    write(2, b"\nStopped by Ctrl-C.\n")
    leave(128 + number)


def stop_with_parent() -> None:
    """Makes the kernel send SIGTERM to this process when its parent process ends. Linux alone can."""
    import ctypes
    import signal

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    import atexit
    import signal

    signal.signal(signal.SIGINT, stop)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # at the very end Python would take `stop` away
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])  # a parent may have blocked them
    stop_with_parent()
    del sys.argv[0]
    if sys.argv[0] == "-m":
        import runpy

        del sys.argv[0]
        sys.path[0] = ""
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        __file__ = sys.argv[0]  # by which processes that the script starts find its functions
        sys.path[0] = os.path.dirname(__file__)
        with open(__file__, "rb") as script:
            exec(compile(script.read(), __file__, "exec"))
