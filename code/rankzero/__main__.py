"""Runs the command line as `python -m rankzero`. From a clone: `PYTHONPATH=code python3 -m rankzero`."""

from rankzero.cli.__main__ import main

main()
