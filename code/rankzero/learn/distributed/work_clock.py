"""Work clock: it stands still while processes wait for a core, so that time limits are the same on a busy machine."""

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.1  # from one look at the processes to the next; what a process does that ends in between is not seen
IDLE_SHARE = 0.02  # processes that use less of the time than this between them, as one that polls may, do nothing
SLOWEST = 25  # the clock runs at least at this fraction of the speed of time, so that every limit is reached


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

    Processes that work in turns, as ranks do, wait for a core in turns too, so their waits are added. So is the wait of
    the thread that looks, which may come too late to see processes that have ended. But the clock runs at least as fast
    as they use CPU time between them: processes that keep the cores busy wait for each other. Where the kernel does not
    tell how long a thread waited (Linux does, in /proc/…/schedstat), the clock runs like any other.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self.waited = 0.0  # seconds in which the clock stood still
        self.idle = 0.0  # latest seconds in which every thread slept, and none worked, waited for a core or for a disk
        self._processes = processes
        self._looked, self._threads, self._own = time.monotonic(), self._read(), self._own_wait()

    def now(self) -> float:
        """Returns the time since an unknown moment: only the difference of two such times has a meaning."""
        now = time.monotonic()
        elapsed = now - self._looked
        if elapsed >= LOOK_S:
            threads, own = self._read(), self._own_wait()
            ran = waits = 0
            for thread, after in threads.items():
                before = self._threads.get(thread, (0, 0))
                ran, waits = ran + after[0] - before[0], waits + after[1] - before[1]
            if str(threading.get_native_id()) not in threads:
                waits += own - self._own
            if not threads or ran > IDLE_SHARE * elapsed * 1e9:
                self.idle = 0.0
            elif self._all_sleep():
                self.idle += elapsed
            counted = max(elapsed - waits / 1e9, ran / 1e9, elapsed / SLOWEST)
            self.waited += max(0.0, elapsed - counted)
            self._looked, self._threads, self._own = now, threads, own
        return now - self.waited

    def _all_sleep(self) -> bool:
        """Returns whether every thread sleeps until something happens, which no thread that waits for a disk does."""
        for process in self._processes():
            with suppress(OSError):
                for thread in os.listdir(f"/proc/{process}/task"):
                    with suppress(OSError, IndexError):
                        stat = Path(f"/proc/{process}/task/{thread}/stat").read_text("ascii", errors="replace")
                        if stat.rsplit(")", 1)[1].split()[0] != "S":
                            return False
        return True

    def _own_wait(self) -> int:
        """Returns the nanoseconds that the calling thread has waited for a core."""
        with suppress(OSError, IndexError, ValueError):
            return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1])
        return 0

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
