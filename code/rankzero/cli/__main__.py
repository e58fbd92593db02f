"""Entry point of the command line, also as `python -m rankzero.cli`.

Importing it sets the handler of Ctrl-C: from then on, Ctrl-C at any moment is one line and exit code 130. It is held
back until the handler is there, by the interpreter's own `_signal`: an import of `signal` takes milliseconds.
"""

import _signal  # type: ignore[import-not-found, unused-ignore]

_signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGINT])
import atexit  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

from rankzero.learn.runs.quiet_start import stop  # noqa: E402

_signal.signal(_signal.SIGINT, stop)  # also before and after a command: see rankzero.cli.terminal
atexit.register(_signal.signal, _signal.SIGINT, _signal.SIG_IGN)  # at the very end Python would take `stop` away
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])


def main() -> None:
    """Runs the command line."""
    sys.unraisablehook = _stop_if_interrupted
    from rankzero.cli.app import app

    try:
        app(prog_name="rankzero")
    except SystemExit as end:
        if end.code == 128 + _signal.SIGINT:  # has been said: a second Ctrl-C in the interpreter's clean-up is silent
            _signal.signal(_signal.SIGINT, lambda number, frame, leave=os._exit: leave(128 + number))
        raise


def _stop_if_interrupted(error: "sys.UnraisableHookArgs") -> None:
    """Replaces `sys.unraisablehook`: Ctrl-C in a place that cannot raise, such as a `__del__`, ends the process too."""
    if issubclass(error.exc_type, KeyboardInterrupt):
        stop(_signal.SIGINT, None)
    sys.__unraisablehook__(error)


if __name__ == "__main__":
    main()
