"""Checks again whenever the learner's file is saved; a key gives a hint, the list, or the end."""

import contextlib
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_S = 0.1


def watch(file: Path, on_save: Callable[[], None], on_key: dict[str, Callable[[], None]]) -> None:
    """Calls `on_save` now and after every save of `file`; `on_key[key]` when that key is pressed; `q` ends it.

    Without a terminal there are no keys, and Ctrl-C ends it.
    """
    seen: tuple[int, int] | None = None
    with _keys() as key:
        while True:
            now = _stamp(file)
            if now and now != seen:
                seen = now
                on_save()
            pressed = key(POLL_S)
            if pressed == "q":
                return
            if pressed in on_key:
                on_key[pressed]()


def _stamp(file: Path) -> tuple[int, int] | None:
    # An editor may replace the file instead of writing into it: for a moment there is none.
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds for a key and returns it, or an empty string."""
    if not sys.stdin.isatty():

        def wait(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield wait
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)

    def read(seconds: float) -> str:
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return sys.stdin.read(1).lower() if ready else ""

    try:
        yield read
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
