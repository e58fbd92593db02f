"""Installation of all observers in a process that has just imported torch."""

import os
from pathlib import Path

from rankzero.triage.observe import (
    activations,
    collectives,
    data,
    failures,
    forwards,
    gradients,
    loss_functions,
    schedules,
    updates,
)
from rankzero.triage.observe.watch import Watch

_installed = False


def install() -> None:
    """Installs the observers, once; they write into the folder that RANKZERO_TRIAGE names."""
    global _installed
    if not _installed:
        _installed = True
        watch = Watch(Path(os.environ["RANKZERO_TRIAGE"]))
        for observer in (
            forwards, loss_functions, gradients, updates, schedules, activations, data, collectives, failures,
        ):  # fmt: skip
            observer.install(watch)
