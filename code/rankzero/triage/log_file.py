"""Log file: a record made of the lines of a log.jsonl, as starters write it and as many scripts do."""

import json
import math
from pathlib import Path
from typing import Any

from rankzero.errors import UserError
from rankzero.triage.record import Memory, Model, Record, Step


def read_log_file(file: Path) -> Record:
    """Returns a record with a step for each line that has a number `loss`. UserError where no line has one."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file} ({getattr(error, 'strerror', None) or 'no text'}).") from None
    events = [event for line in lines if isinstance(event := _parsed(line), dict)]
    steps = [event for event in events if event.get("event", "step") == "step" and _is_number(event.get("loss"))]
    if not steps:
        raise UserError(f"{file} has no line of JSON with a number `loss`: give a script or a log.jsonl of a run.")
    model = Model(name=file.name)
    model.steps = [Step(loss=float(event["loss"]), lr=_number(event.get("lr"))) for event in steps]
    model.validation_losses = [float(event["val_loss"]) for event in events if _is_number(event.get("val_loss"))]
    memory = [(event.get("step", 0), event["memory"]) for event in events if isinstance(event.get("memory"), dict)]
    looks = [Memory(int(step), 0, int(max(kinds.values(), default=0))) for step, kinds in memory]
    return Record(models=[model], memory=looks)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:  # a line cut by a kill
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float:
    return float(value) if _is_number(value) and math.isfinite(value) else 0.0
