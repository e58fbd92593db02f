"""Entry point of the command line, also as `python -m rankzero.cli`."""

import signal

from rankzero.learn.runs.quiet_start import stop


def main() -> None:
    """Runs the command line. Ctrl-C at any moment ends it with exit code 130 and one line."""
    signal.signal(signal.SIGINT, stop)  # until a command runs: see rankzero.cli.terminal
    from rankzero.cli.app import app

    try:
        app(prog_name="rankzero")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the interpreter's clean-up prints no traceback


if __name__ == "__main__":
    main()
