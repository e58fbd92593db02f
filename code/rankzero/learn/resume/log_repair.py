"""Repair of a run's log after a kill: whole lines of steps that the checkpoint contains, each step once."""

import json
from pathlib import Path

from rankzero.atomic_write import replace_atomically


def keep_log_until(log: Path, step: int) -> int:
    """Removes from a JSONL log what was written after `step`, and lines cut off by a kill; returns how many lines.

    The steps after `step` will be trained again, and logged again. Events without a step stay.
    """
    if not log.exists():
        return 0
    kept, removed = [], 0
    for line in log.read_bytes().splitlines():
        try:
            event = json.loads(line)
            whole = isinstance(event, dict) and event.get("step", 0) <= step
        except ValueError:
            whole = False
        removed += not whole
        kept += [line + b"\n"] if whole else []
    with replace_atomically(log) as partial:
        partial.write_bytes(b"".join(kept))
    return removed
