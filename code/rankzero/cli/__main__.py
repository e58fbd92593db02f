"""Entry point of the command line, also as `python -m rankzero.cli`."""

import signal

from rankzero.cli.quiet_start import stop


def main() -> None:
    """Runs the command line. Ctrl-C at any moment ends it with exit code 130 and one line."""
    signal.signal(signal.SIGINT, stop)
    from rankzero.cli.app import app

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app(prog_name="rankzero")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the interpreter's clean-up prints no traceback


if __name__ == "__main__":
    main()
