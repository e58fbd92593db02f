"""Failures: the exception that ends a process, with the line of the script."""

import os
import sys
import traceback
from types import TracebackType

from rankzero.triage.observe.watch import Watch
from rankzero.triage.record import Failure

LIBRARIES = ("/site-packages/", "/lib/python", "/rankzero/triage/", "<frozen")


def install(watch: Watch) -> None:
    """Observes the exceptions that nothing catches."""
    show = sys.excepthook

    def observed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        frames = traceback.extract_tb(trace)
        own = [frame for frame in frames if not any(part in frame.filename for part in LIBRARIES)]
        folder = os.path.dirname(os.path.abspath(sys.argv[0]))
        own = [frame for frame in own if os.path.dirname(os.path.abspath(frame.filename)) == folder] or own
        place = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
        watch.record.failure = Failure(kind.__name__, str(error), place)
        watch.write()
        show(kind, error, trace)

    sys.excepthook = observed
