"""Waits for collectives and messages: which of them a learner's code has waited for, noted by methods of torch.

The methods are replaced by functions of this library, called `wrapper`, which a report about stuck ranks leaves out: it
names the line of the learner's file.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from rankzero.learn.distributed.collectives import CollectiveCounter


class Waits:
    """Calls `note` when code waits for a collective or reads its status; `attended` has the collectives concerned.

    Taking a future does not count as waiting, because `then` can be called with a function to run at its end.
    """

    NAMES = (
        (dist.Work, ("wait", "synchronize", "is_completed", "is_success", "get_future", "result")),
        (torch._C.Future, ("wait", "value", "done")),
    )

    def __init__(self, note: Callable[[], None] = lambda: None) -> None:
        self.attended: list[Any] = []
        self._own = [(owner, name, getattr(owner, name)) for owner, names in self.NAMES for name in names]
        for owner, name, method in self._own:

            def wrapper(work: Any, *args: Any, name: str = name, method: Any = method, **kwargs: Any) -> Any:
                if isinstance(work, dist.Work) and not any(work is attended for attended in self.attended):
                    self.attended.append(work)
                if name != "get_future":
                    note()
                return method(work, *args, **kwargs)

            setattr(owner, name, wrapper)

    def undo(self) -> None:
        """Restores the methods."""
        for owner, name, method in self._own:
            setattr(owner, name, method)


class SettledCounter(CollectiveCounter):
    """Counts collectives, lets each of them end at once, and counts those that the code itself has not waited for.

    So the numbers that code computes do not depend on which rank is faster, and a missing wait is noticed every time.
    """

    def __enter__(self) -> Any:
        self._waits = Waits()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._waits.undo()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if func.namespace == "c10d" and isinstance(result, tuple):
            result[-1].wait()
        return result

    @property
    def unwaited(self) -> int:
        """Number of collectives that the code started and has not waited for."""
        return max(0, len(self.records) - len(self._waits.attended))
