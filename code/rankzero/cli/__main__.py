"""Runs the command line as `python -m rankzero.cli`."""

from rankzero.cli.app import app

app()
