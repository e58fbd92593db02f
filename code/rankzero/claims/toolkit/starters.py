"""Starters of the labs as modules, and the losses that a short run of a starter logs."""

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

from rankzero.curriculum import find_lab
from rankzero.learn.runs.plots import read_log

SIZES = ("--hidden-dim=32", "--layers=1", "--heads=2", "--block-size=16", "--batch-size=12", "--device=cpu")


def starter(number: str) -> Any:
    """The starter of the lab with that number, as a module."""
    return find_lab(number).import_starter()


def logged_losses(number: str, *arguments: str) -> list[float]:
    """Losses of the steps that a starter takes with a tiny model; `arguments` of its command line say how many."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        assert starter(number).main([*SIZES, *arguments, "--out", folder]) == 0
        (log,) = Path(folder).glob("*/log.jsonl")
        return [event["loss"] for event in read_log(log)["step"]]
