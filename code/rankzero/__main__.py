"""Runs the command line as `python -m rankzero`. From a clone: `PYTHONPATH=code python3 -m rankzero`."""

from rankzero.cli.app import app

app(prog_name="rankzero")
