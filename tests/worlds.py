"""Ranks that are alive: processes that this process's fork server has started, for tests of worlds."""

from contextlib import suppress
from multiprocessing.forkserver import _forkserver

import psutil


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
