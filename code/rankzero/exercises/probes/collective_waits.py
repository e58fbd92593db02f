"""Waits for collectives and messages: which of them a learner's code has waited for, noted by methods of torch.

The methods are replaced by functions of this library, called `wrapper`, which a report about stuck ranks leaves out: it
names the line of the learner's file.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


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
