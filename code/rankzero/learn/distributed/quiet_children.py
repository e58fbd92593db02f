"""Quiet children: Python programs that ignore Ctrl-C from their first moment, because their parent handles it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def children_ignore_ctrl_c() -> Iterator[None]:
    """Makes Python programs that are started in the context ignore Ctrl-C from their first moment, import included.

    This process gets a Ctrl-C after the context. The programs start with SIGINT blocked, too. Does nothing in a thread,
    which can set no handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # which would end the blocking
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
