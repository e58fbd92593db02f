"""Recorded runs: the losses and the table of memory in what a starter printed, read for a figure."""

import re
from dataclasses import dataclass

from rankzero.curriculum import find_lab
from rankzero.errors import UserError

_STEP = re.compile(r"^step\s+([\d,]+)/[\d,]+\s+(validation loss|loss) ([\d.]+)", re.MULTILINE)
_PHASE = re.compile(r"^(\w+)((?: +[\d.,]+){3,})$", re.MULTILINE)


@dataclass(frozen=True)
class RecordedRun:
    """Points (step, loss) of training and validation, and MiB by phase and column of the table of memory."""

    training: list[tuple[int, float]]
    validation: list[tuple[int, float]]
    memory: dict[str, dict[str, float]]


def recorded_text(lab: str, name: str) -> str:
    """Returns what the lab's starter printed in code/lab-NN-name/recorded/NAME.txt."""
    return (find_lab(lab).folder / "recorded" / f"{name}.txt").read_text(encoding="utf-8")


def recorded_run(lab: str, name: str) -> RecordedRun:
    """Reads code/lab-NN-name/recorded/NAME.txt. UserError if it has no line with a loss."""
    text = recorded_text(lab, name)
    points: dict[str, list[tuple[int, float]]] = {"loss": [], "validation loss": []}
    for step, kind, loss in _STEP.findall(text):
        points[kind].append((int(step.replace(",", "")), float(loss)))
    if not points["loss"]:
        raise UserError(
            f"recording {name} of lab {lab} has no line with a loss: record it again with `make sync ARGS=--record`."
        )
    return RecordedRun(points["loss"], points["validation loss"], _memory(text))


def _memory(text: str) -> dict[str, dict[str, float]]:
    header = re.search(r"^MiB after +(.*)$", text, re.MULTILINE)
    if header is None:
        return {}
    names = header[1].split()
    rows = _PHASE.findall(text[header.end() :])
    return {
        phase: dict(zip(names, (float(number.replace(",", "")) for number in numbers.split()), strict=False))
        for phase, numbers in rows
    }
