"""Work clock: it stands still while processes wait for a core, so that time limits are the same on a busy machine."""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.1  # from one look at the processes to the next; the waiting of a process that ends in between is not seen
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

    Of several threads in several processes, the one that waited longest counts. Where the kernel does not tell how long
    a thread waited (it does on Linux, in /proc/…/schedstat), the clock runs like any other.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self.waited = 0.0  # seconds in which the clock stood still
        self._processes = processes
        self._looked, self._waits = time.monotonic(), self._read()

    def now(self) -> float:
        """Returns the time since an unknown moment: only the difference of two such times has a meaning."""
        now = time.monotonic()
        elapsed = now - self._looked
        if elapsed >= LOOK_S:
            waits = self._read()
            longest = max((wait - self._waits.get(thread, 0) for thread, wait in waits.items()), default=0)
            self.waited += min(longest / 1e9, elapsed * (1 - 1 / SLOWEST))
            self._looked, self._waits = now, waits
        return now - self.waited

    def _read(self) -> dict[str, int]:
        """Returns the nanoseconds that each thread has waited for a core since it began."""
        waits = {}
        for process in self._processes():
            with suppress(OSError):
                for thread in os.listdir(f"/proc/{process}/task"):
                    with suppress(OSError, IndexError, ValueError):
                        text = Path(f"/proc/{process}/task/{thread}/schedstat").read_text("ascii")
                        waits[thread] = int(text.split()[1])
        return waits
