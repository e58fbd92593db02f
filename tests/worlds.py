"""Worlds in tests: the ranks that are alive, and a clock on which a world's limit is over at a sign from a rank."""

import time
from contextlib import suppress
from multiprocessing.forkserver import _forkserver
from pathlib import Path

import psutil
import pytest

from rankzero.learn.distributed import world

PATIENCE_S = 200.0  # so long may a rank take to reply after another has failed; a world ends when all have replied


def ranks_alive() -> list[psutil.Process]:
    """Returns the ranks that run, and their child processes; the sandbox of another test is none of them."""
    server: int | None = getattr(_forkserver, "_forkserver_pid", None)  # absent in the types of multiprocessing
    alive = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(server).children(recursive=True) if server else []:
            with suppress(psutil.NoSuchProcess):
                if process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(process)
    return alive


class SignClock:
    """Stands for `time` in world.py: it stands still until a file is there, and then every limit is over."""

    sleep = staticmethod(time.sleep)

    def __init__(self, sign: Path) -> None:
        self.sign = sign

    def monotonic(self) -> float:
        return 10**6 + time.monotonic() if self.sign.exists() else 0.0


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets worlds wait for the replies of all ranks after a failure, however busy the machine is."""
    monkeypatch.setattr(world, "GRACE_S", PATIENCE_S)
