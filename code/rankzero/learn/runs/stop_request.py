"""Stop requests: Ctrl-C and SIGTERM as a flag that a training loop tests between steps, or as an exception."""

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

from rankzero.learn.distributed.rank_process import SHOWN
from rankzero.learn.distributed.socket_folder import shorten_socket_paths

T = TypeVar("T")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
ECHO_S = 1.0  # a Ctrl-C that comes again within this time is the same request


@dataclass
class StopRequest:
    """A request to stop after the current step: false until a signal asks for it, here or on another rank."""

    number: int = 0  # the first signal: SIGINT, which is Ctrl-C, or SIGTERM

    def __bool__(self) -> bool:
        return self.number != 0

    @property
    def name(self) -> str:
        return "Ctrl-C" if self.number == signal.SIGINT else signal.Signals(self.number).name

    @property
    def exit_code(self) -> int:
        """The code by which a shell reports a program that the signal ended: 130 or 143."""
        return 128 + self.number


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised wherever the program is, as Python raises KeyboardInterrupt for Ctrl-C."""


@contextmanager
def finish_step_on_interrupt(says: str = "") -> Iterator[StopRequest]:
    """Turns Ctrl-C and SIGTERM into a flag to test between steps: in mid-step, weights and optimizer disagree.

    On a terminal, the first signal prints `says`, if anything, at once, and that a second Ctrl-C does not wait.

    A second Ctrl-C raises KeyboardInterrupt at once, unless it comes within ECHO_S of the first signal: where Slurm
    signals every process of a job, a rank gets the signal from Slurm and again from torchrun, and both are one request.
    A second SIGTERM is always the same request, also after the block, until the process ends: impatience is SIGKILL.
    """
    request, first = StopRequest(), time.monotonic()

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if not request:
            request.number, first = number, time.monotonic()
            if says and os.environ.get("RANK", "0") == "0" and (sys.stderr.isatty() or SHOWN in os.environ):
                # os.write: the signal may have come in the middle of a print.
                os.write(sys.stderr.fileno(), f"\n{says}. Ctrl-C again stops at once.\n".encode())
        elif number == signal.SIGINT and time.monotonic() - first > ECHO_S:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        if not request:
            signal.signal(signal.SIGTERM, before[signal.SIGTERM])


@contextmanager
def signals_raise() -> Iterator[None]:
    """Raises Terminated at SIGTERM and KeyboardInterrupt at Ctrl-C, so that a program can say that it stops.

    The program's `finally` blocks run. An ignored Ctrl-C, as of a program in the background, stays ignored.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before, before_ctrl_c = signal.signal(signal.SIGTERM, handle), signal.getsignal(signal.SIGINT)
    if before_ctrl_c is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before_ctrl_c)
        if signal.getsignal(signal.SIGTERM) is handle:  # a loop that has just stopped leaves its own
            signal.signal(signal.SIGTERM, before)


def start_workers(loader: Iterable[T]) -> Iterator[T]:
    """Returns iter(loader). Ctrl-C and SIGTERM are held back until the loader's workers have started.

    To be called in the main thread, like all that sets handlers of signals.
    """
    shorten_socket_paths()
    received: list[int] = []  # a worker inherits the handlers, and drops a signal that comes while it starts
    before = {number: signal.signal(number, lambda got, _: received.append(got)) for number in STOP_SIGNALS}
    try:
        return iter(loader)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def leave_signals_to_parent(worker: int) -> None:
    """Makes a worker of `start_workers` leave a terminal's Ctrl-C to its parent, which then ends the worker.

    The worker moves to a process group of its own. It can still be ended by SIGTERM.
    """
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def report_stop(error: KeyboardInterrupt) -> int:
    """Prints in one line that a signal has stopped the program at once; returns the exit code."""
    request = StopRequest(signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)
    print(f"\nStopped by {request.name} at once: files that were saved before are kept.", file=sys.stderr)
    return request.exit_code
