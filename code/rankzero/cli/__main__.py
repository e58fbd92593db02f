"""Entry point of the command line, also as `python -m rankzero.cli`."""

import signal
import sys


def main() -> None:
    """Runs the command line. Ctrl-C at any moment ends it with exit code 130 and no traceback."""
    try:
        from rankzero.cli.app import app

        app(prog_name="rankzero")
    except KeyboardInterrupt:  # during the imports; within a command Typer ends with 130
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the interpreter's clean-up prints no traceback


if __name__ == "__main__":
    main()
