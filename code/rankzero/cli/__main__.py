"""Entry point of the command line, also as `python -m rankzero.cli`."""

import sys


def main() -> None:
    """Runs the command line. Ctrl-C during the imports, too, ends it with exit code 130 and no traceback."""
    try:
        from rankzero.cli.app import app

        app(prog_name="rankzero")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
