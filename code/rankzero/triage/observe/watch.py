"""Watch: the state of the observers in one process, and the writing of its record."""

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rankzero.triage.observe.model_watch import ModelWatch
from rankzero.triage.record import Record, write

WRITE_S = 0.5  # between two writings of the record, which a killed process leaves behind
WRITE_STEPS = 25  # besides, after so many updates
SUMMARY_S = 4.0  # between two summaries, which take longer
SHARE = 0.3  # of the time, that the observers may take after the first steps
MOST_MODELS = 24


class Watch:
    """The observations of this process. All observers share one watch; a forked process starts with an empty one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.summaries: list[Callable[[], None]] = []  # bring the record up to date; slow
        self._clear()
        atexit.register(self.finish)
        os.register_at_fork(after_in_child=self._clear)
        exit_now = os._exit

        def finish_and_exit(code: int) -> None:
            self.finish()
            exit_now(code)

        os._exit = finish_and_exit  # type: ignore[assignment]

    def _clear(self) -> None:
        self.record = Record(pid=os.getpid())
        self.models: dict[int, ModelWatch] = {}  # by id of the module; a dead module's entry is replaced
        self.known: list[ModelWatch] = []
        self.current: ModelWatch | None = None  # whose forward pass runs
        self.last: ModelWatch | None = None  # whose forward pass was the last one
        self.batch_of: ModelWatch | None = None  # the model that is given the batch, the first of a forward pass
        self.batch: list[Tensor] = []
        self.embedded: tuple[ModelWatch, Tensor, Tensor] | None = None  # a part, its tokens [B, T] and its output
        self.busy = False  # an observer runs torch operations, or backward does
        self.updating = False  # an optimizer's step runs, which may call backward itself
        self.scale = 1.0  # by which a GradScaler has multiplied the loss
        self.unscaled = False
        self.spent = 0.0  # seconds taken by observers
        self._looking_since: float | None = None  # when the observer at work, if any, began
        self.since: float | None = None  # time of the end of the last update, of any model
        self.collective_s, self.backward_s = 0.0, 0.0  # since then
        self.started = time.perf_counter()
        self._writer: threading.Thread | None = None
        self._written = threading.Lock()
        self._summarized = 0.0

    def now(self) -> float:
        """Returns the time in seconds, without the time that observers have taken, the one at work included."""
        return (self._looking_since or time.perf_counter()) - self.spent

    def affordable(self) -> bool:
        """Returns whether the observers have taken at most their share of the time."""
        return self.spent < SHARE * (time.perf_counter() - self.started)

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Runs an observer: its own operations are not observed, and its time does not count. It never fails."""
        began, was_busy, self.busy = time.perf_counter(), self.busy, True
        outer, self._looking_since = self._looking_since, self._looking_since or began
        try:
            with torch.no_grad():
                yield
        except Exception as error:  # an observer must not end the script
            if "RANKZERO_TRIAGE_DEBUG" in os.environ:
                raise
            self.record.trouble = f"{type(error).__name__}: {error}"
        finally:
            self.busy, self._looking_since = was_busy, outer
            self.spent += 0.0 if outer else time.perf_counter() - began  # the outer one counts it
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_on, daemon=True)
                self._writer.start()

    def model_of(self, module: nn.Module) -> ModelWatch | None:
        """Returns the watch of a module; None for one without parameters, for a part of a model, or one too many."""
        known = self.models.get(id(module))
        if known is not None and known.holds(module):
            return known
        parameters = {id(parameter) for parameter in module.parameters()}
        if not parameters:
            return None
        for other in self.known:
            if other.alive() and parameters <= other.ids:
                if len(parameters) < len(other.ids):
                    return None
                self.models[id(module)] = other  # as DistributedDataParallel and the module in it
                other.modules = [weakref.ref(module), *(ref for ref in other.modules if ref() is not None)]
                return other
        if len(self.known) >= MOST_MODELS:
            return None
        model = self.models[id(module)] = ModelWatch(module)
        self.known.append(model)
        self.record.models.append(model.record)
        return model

    def trained_by(self, optimizer: Any) -> list[ModelWatch]:
        """Returns the watches of the models that the optimizer updates."""
        ids = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        return [model for model in self.known if model.alive() and not ids.isdisjoint(model.ids)]

    def summarize(self) -> None:
        """Brings the record up to date."""
        self._summarized = time.monotonic()
        for summary in self.summaries:
            with contextlib.suppress(Exception):
                summary()

    def write(self) -> None:
        """Writes the record of this process, once something has been observed."""
        if self.record.models or self.record.failure or self.record.collectives:
            with self._written, contextlib.suppress(RuntimeError, OSError):  # a list grew meanwhile; the folder is gone
                write(self.record, self.folder / f"{os.getpid()}.json")

    def write_at(self, step: int) -> None:
        """Writes the record after the first updates and then at times: a short rank may be killed before WRITE_S."""
        if step & (step - 1) == 0 or step % WRITE_STEPS == 0:
            self.write()

    def finish(self) -> None:
        """Writes the last record of this process."""
        with self.looking():
            self.summarize()
        self.write()

    def _write_on(self) -> None:
        while True:
            time.sleep(WRITE_S)
            if time.monotonic() > self._summarized + SUMMARY_S:
                self.summarize()
            self.write()


def plain(value: Any) -> bool:
    """Returns whether `value` is a tensor with numbers that an observer may read."""
    return isinstance(value, Tensor) and type(value) in (Tensor, nn.Parameter) and value.device.type != "meta"
