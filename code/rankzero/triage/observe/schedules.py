"""Schedules of the learning rate: how often each is stepped, beside the length that it was made for."""

import weakref
from typing import Any

from torch.optim import lr_scheduler

from rankzero.triage.observe.watch import Watch

LENGTHS = ("T_max", "total_steps", "total_iters")


def install(watch: Watch) -> None:
    """Observes the schedulers of torch.optim."""
    step, entries = lr_scheduler.LRScheduler.step, weakref.WeakKeyDictionary[Any, dict[str, Any]]()

    def observed(self: Any, *args: Any, **kwargs: Any) -> None:
        step(self, *args, **kwargs)
        with watch.looking():
            if self not in entries:
                length = next((getattr(self, name) for name in LENGTHS if hasattr(self, name)), None)
                entries[self] = {"name": type(self).__name__, "calls": -1, "length": length}  # one call is made first
                watch.record.schedules.append(entries[self])
            entries[self]["calls"] += 1

    lr_scheduler.LRScheduler.step = observed  # type: ignore[method-assign]
