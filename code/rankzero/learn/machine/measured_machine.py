"""Measured machine: rates that Lab 00 has measured, kept in one file with their date and the machine's fingerprint.

`rankzero plan --hardware measured` and the step meter read them. The file holds one measurement per kind of device, and
counts only on the machine on which it was measured.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from rankzero.atomic_write import write_atomically
from rankzero.errors import UserError
from rankzero.learn.data.downloads import cache_folder
from rankzero.learn.machine.device import device_name

MEASURE = "measure it with `rankzero run 00`"
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}


@dataclass(frozen=True)
class MeasuredMachine:
    """The rates of one device. Bytes are decimal in rates, and `memory` is in bytes."""

    kind: str  # "cpu", "cuda" or "mps"
    name: str  # of the device, with the number of threads of a CPU
    date: str
    peaks: Mapping[str, float]  # FLOP/s of the fastest product, by dtype: "fp32", "bf16", ...; int8 counts operations
    bandwidth: float  # bytes/s of a copy in memory, read and written bytes together
    call_seconds: float  # time of a call that has next to no work
    memory: int
    fingerprint: Mapping[str, Any]


def machine_file() -> Path:
    """Returns the one file: $RANKZERO_MACHINE, or `machine.json` in the cache folder."""
    return Path(os.environ.get("RANKZERO_MACHINE") or cache_folder() / "machine.json")


def keep_measurement(machine: MeasuredMachine, *, replace: bool) -> str:
    """Keeps a measurement unless there is one of this device already; returns in a sentence what was done.

    UserError where the file cannot be written.
    """
    file, kept = machine_file(), _read()
    earlier = kept.get(machine.kind)
    if isinstance(earlier, dict) and not replace:
        return f"{file} keeps the measurement of {str(earlier.get('date'))[:10]}; --replace puts this one there"
    try:
        write_atomically(file, json.dumps(kept | {machine.kind: asdict(machine)}, indent=2) + "\n")
    except OSError as error:
        raise UserError(
            f"cannot keep the measurement in {file} ({error.strerror}): name another file with the variable "
            "RANKZERO_MACHINE."
        ) from None
    return f"{file}, for `rankzero plan --hardware measured` and the meter's MFU"


def measured_machine(device: torch.device) -> MeasuredMachine:
    """Returns the kept measurement of this device. UserError if there is none, or it is of another machine."""
    table = _read().get(device.type)
    file = machine_file()
    if not isinstance(table, dict):
        raise UserError(f"this machine's {device.type} is not measured ({file} does not have it): {MEASURE}.")
    try:
        machine = MeasuredMachine(**{field.name: table[field.name] for field in fields(MeasuredMachine)})
        rates = [*machine.peaks.values(), machine.bandwidth, machine.memory, machine.peaks["fp32"]]
        if not all(float(rate) > 0 for rate in rates):
            raise ValueError("a rate is not above 0")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{file} is damaged: {MEASURE} --replace.") from None
    if machine.name != device_name(device):
        raise UserError(
            f"{file} was measured on another machine ({machine.name}; this one is {device_name(device)}): "
            f"{MEASURE} --replace."
        )
    return machine


def kept_peak(device: torch.device, dtype: torch.dtype = torch.float32) -> tuple[float, str] | None:
    """Returns the measured FLOP/s of products in `dtype` and the date; None where this machine was not measured."""
    try:
        machine = measured_machine(device)
    except UserError:
        return None
    name = NAMES.get(dtype, "")
    if name == "fp32" and device.type == "cuda" and torch.get_float32_matmul_precision() != "highest":
        name = "tf32"
    return (machine.peaks[name], machine.date[:10]) if name in machine.peaks else None


def _read() -> dict[str, Any]:
    """Returns the file's table; an empty one where there is no file, or none that can be read."""
    try:
        table = json.loads(machine_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}
