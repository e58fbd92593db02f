"""The learner's progress over all labs, in one small JSON file that outlives every command."""

import datetime
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankzero.curriculum import ROOT


class ProgressError(Exception):
    """The progress file cannot be used; the text names it and says what to do."""


@dataclass
class LabProgress:
    """What is known of one lab. `points` are the last check's, by exercise; `hints` how many were shown."""

    file: str = ""
    points: dict[str, int] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    checked: str = ""  # when, UTC


def progress_file() -> Path:
    """$RANKZERO_PROGRESS, or `.rankzero/progress.json` in the repository."""
    return Path(os.environ.get("RANKZERO_PROGRESS") or ROOT / ".rankzero" / "progress.json")


def read_progress() -> dict[str, LabProgress]:
    """Progress by lab number; empty before the first `start`."""
    path = progress_file()
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {number: LabProgress(**values) for number, values in raw.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ProgressError(
            f"{path} cannot be read ({error}): mend it, or delete it to start the record anew."
        ) from None


def write_progress(number: str, lab: LabProgress) -> None:
    """Keeps one lab's progress, replacing the file whole."""
    everything = read_progress() | {number: lab}
    path = progress_file()
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(
            json.dumps({key: vars(value) for key, value in everything.items()}, indent=2), encoding="utf-8"
        )
        partial.replace(path)
    except OSError as error:
        raise ProgressError(
            f"cannot write {path} ({error.strerror}): name another place with RANKZERO_PROGRESS."
        ) from None


def now() -> str:
    """The date and time for the record."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
