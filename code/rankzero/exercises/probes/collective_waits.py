"""Waits for collectives and messages: which of them a learner's code has waited for, noted by methods of torch.

The methods are replaced by functions of this library, called `wrapper`, which a report about stuck ranks leaves out: it
names the line of the learner's file.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from rankzero.learn.distributed.collectives import CollectiveCounter


class Waits:
    """Calls `note` when code waits for a collective or reads its status; `attended` has the collectives waited for.

    Taking a future is no wait, and neither is a single question for the status: the first answer is always no, so that
    only code that asks until the answer is yes has waited.
    """

    NAMES = (
        (dist.Work, ("wait", "synchronize", "is_completed", "is_success", "get_future", "result")),
        (torch._C.Future, ("wait", "value", "done", "then")),
    )
    QUESTIONS = ("is_completed", "is_success", "done")

    def __init__(self, note: Callable[[], None] = lambda: None) -> None:
        self.attended: list[Any] = []
        self._futures: list[tuple[Any, Any]] = []  # each with its collective
        self._asked: list[Any] = []  # collectives and futures that were asked for their status
        self._note = note
        self._own = [(owner, name, getattr(owner, name)) for owner, names in self.NAMES for name in names]
        for owner, name, method in self._own:

            def wrapper(work: Any, *args: Any, name: str = name, method: Any = method, **kwargs: Any) -> Any:
                return self._call(work, name, functools.partial(method, work, *args, **kwargs))

            setattr(owner, name, wrapper)

    def _call(self, waited: Any, name: str, method: Callable[[], Any]) -> Any:
        """Returns the method's value for a collective or a future, and notes whether code has waited for it."""
        if name in ("get_future", "then"):
            future = method()
            self._futures += [(future, work) for work in self._works(waited)]
            return future
        self._note()
        value = method()
        if name in self.QUESTIONS and not any(waited is asked for asked in self._asked):
            self._asked.append(waited)
            return False
        if name not in self.QUESTIONS or value:
            new = (work for work in self._works(waited) if not any(work is attended for attended in self.attended))
            self.attended.extend(new)
        return value

    def _works(self, waited: Any) -> list[Any]:
        """Returns the collective itself, or that of a future; for a future of several futures, all that have one."""
        if isinstance(waited, dist.Work):
            return [waited]
        own = [work for future, work in self._futures if future is waited]
        return own or [work for _, work in self._futures]

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
