"""Work clock: it stands still while processes wait for a core, so that time limits are the same on a busy machine."""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.1  # from one look at the processes to the next; what a process does that ends in between is not seen
SLOWEST = 10  # the clock runs at least at a tenth of the speed of time, so that every limit is reached


def descendants(process: int) -> list[int]:
    """Returns the ids of the processes that `process` and its descendants have started; [] where there is no /proc."""
    found = [process]
    for parent in found:  # grows on the way
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                with suppress(OSError):
                    found += map(int, Path(f"/proc/{parent}/task/{thread}/children").read_text("ascii").split())
    return found[1:]


class WorkClock:
    """A clock in seconds that does not count the time in which `processes()` were ready to run while others ran.

    Of several threads in several processes, the one that waited longest counts. The clock does not stand still for
    processes that keep a core busy between them: these wait for each other. Where the kernel does not tell how long a
    thread waited (Linux does, in /proc/…/schedstat), the clock runs like any other.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self.waited = 0.0  # seconds in which the clock stood still
        self._processes = processes
        self._looked, self._threads = time.monotonic(), self._read()

    def now(self) -> float:
        """Returns the time since an unknown moment: only the difference of two such times has a meaning."""
        now = time.monotonic()
        elapsed = now - self._looked
        if elapsed >= LOOK_S:
            threads = self._read()
            before = [self._threads.get(thread, (0, 0)) for thread in threads]
            ran = sum(after[0] - then[0] for after, then in zip(threads.values(), before, strict=True)) / 1e9
            waits = (after[1] - then[1] for after, then in zip(threads.values(), before, strict=True))
            counted = max(elapsed - max(waits, default=0) / 1e9, ran, elapsed / SLOWEST)
            self.waited += max(0.0, elapsed - counted)
            self._looked, self._threads = now, threads
        return now - self.waited

    def _read(self) -> dict[str, tuple[int, int]]:
        """Returns for each thread the nanoseconds that it has run, and that it has waited for a core."""
        threads = {}
        for process in self._processes():
            with suppress(OSError):
                for thread in os.listdir(f"/proc/{process}/task"):
                    with suppress(OSError, IndexError, ValueError):
                        ran, waited = Path(f"/proc/{process}/task/{thread}/schedstat").read_text("ascii").split()[:2]
                        threads[thread] = int(ran), int(waited)
        return threads
