"""Results of a GPU session: one JSON file, written again after every part."""

import json
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rankzero.atomic_write import write_atomically
from rankzero.claims.import_results import FORMAT
from rankzero.learn.machine.fingerprint import fingerprint


@dataclass
class Outcome:
    """How a part ended. `status` is `passed`, `failed` or `left out`; `text` is what it found, or why."""

    name: str
    status: str
    seconds: float
    text: str
    about: str


@dataclass
class Results:
    """All that a session found. `claims` holds by slug what measure_claims.py printed for a claim."""

    rehearsal: bool
    machine: dict[str, Any]
    parts: list[Outcome] = field(default_factory=list)
    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    format: int = FORMAT

    def write(self, folder: Path) -> Path:
        """Writes gpu.json into `folder`, whole or not at all, and returns it."""
        file = folder / "gpu.json"
        write_atomically(file, json.dumps(asdict(self), indent=1) + "\n")
        return file


def this_machine() -> dict[str, Any]:
    """Returns date, commit, versions and hardware, with the GPU's driver."""
    return fingerprint() | {"driver": _driver()}


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.split("\n")[0]
    except (OSError, subprocess.SubprocessError):
        return ""
