"""Step meter: progress, loss, throughput and memory of a training run, printed and logged while it runs.

It shows progress on a terminal, prints plain lines into a file or a pipe, and writes every step to a JSONL log.
"""

import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from rankzero.errors import UserError
from rankzero.learn.machine.device import peak_flops
from rankzero.learn.machine.measured_machine import kept_peak
from rankzero.learn.profiling.memory import MIB, memory_now
from rankzero.learn.runs.tracking import track_log


class StepMeter:
    """Times training steps and reports them in windows of `every` steps.

    The first step is a separate window: its loss is the loss before training, and its time, which includes one-off
    work, stays out of the overall rate.

    Call `step` after each step. Losses stay on the device until a window ends: reading a loss earlier would make the
    host wait for the device. Use the meter as a context, so that the last window is written.

    `log` is the JSONL file, one event per line: `run`, `step` (loss, lr, further measured values), `window` (mean loss,
    tokens_per_s, step_ms, memory in bytes, gpu_util in percent and mfu where known), `eval` (val_loss).

    `mfu` is the share of the device's peak in matrix products of `dtype`: as Lab 00 has measured it on this machine, or
    else as on the data sheet.
    """

    def __init__(
        self,
        log: Path,
        *,
        first_step: int,
        last_step: int,
        tokens_per_step: int,
        device: torch.device,
        flops_per_token: int,
        every: int = 50,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.first_step, self.last_step, self.every = first_step, last_step, every
        self.done = first_step  # steps taken so far, counted from the start of training
        self.loss = math.nan  # mean of the last window
        self._tokens_per_step, self._device = tokens_per_step, device
        measured = kept_peak(device, dtype)
        self._peak_flops = measured[0] if measured else peak_flops(device, dtype)
        self._flops_per_token = flops_per_token
        self._log = log.open("a", encoding="utf-8")
        self._pending: list[tuple[int, float, dict[str, Tensor]]] = []
        self._steps, self._seconds = 0, 0.0
        self._console = Console(soft_wrap=True, highlight=False, force_jupyter=False)
        self._progress = Progress(
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(),
            TimeRemainingColumn(compact=True),
            console=self._console,
            transient=True,
            refresh_per_second=4,
            disable=not sys.stdout.isatty(),
        )
        self._task = self._progress.add_task("train", total=last_step, completed=first_step)

    def __enter__(self) -> "StepMeter":
        self._progress.start()
        self._started = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self._progress.stop()
            with self._into_log() if kind is None else suppress(OSError):
                self._log.close()

    def write(self, event: str, **values: Any) -> None:
        """Appends one event to the log. UserError where the disk is full."""
        with self._into_log():
            self._log.write(json.dumps({"event": event, **values}) + "\n")

    @contextmanager
    def _into_log(self) -> Iterator[None]:
        """Turns an error of the disk into one sentence."""
        try:
            yield
        except OSError as error:
            raise UserError(f"cannot write to {self._log.name} ({error.strerror}): free some space.") from None

    def print(self, line: str) -> None:
        """Prints above the progress bar."""
        self._progress.console.print(line, markup=False)

    def step(self, loss: Tensor, lr: float, **measured: Tensor) -> None:
        """Counts one step. `loss` is a scalar tensor on any device, `lr` the step's learning rate.

        `measured` are further scalars of the step: they are logged, and their means are printed after the loss.
        """
        self.done += 1
        self._pending.append((self.done, lr, {"loss": loss.detach(), **measured}))
        self._progress.update(self._task, completed=self.done)
        if self.done % self.every == 0 or self.done in (self.first_step + 1, self.last_step):
            self.flush()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves the time of the block, such as an evaluation, out of the training throughput."""
        self.flush()
        yield
        self._started = time.perf_counter()

    def evaluation(self, val_loss: float) -> None:
        """Reports the validation loss after the steps so far. UserError where it is no longer a finite number."""
        self.write("eval", step=self.done, val_loss=val_loss)
        if not math.isfinite(val_loss):
            raise UserError(
                f"the validation loss became {val_loss} at step {self.done}: start again with a smaller --lr."
            )
        self.print(f"step {self.done:>5}/{self.last_step}  validation loss {val_loss:.4f}")

    def overall(self) -> str:
        """Returns the throughput over all steps, in words."""
        if not self._steps:
            return "one step, which is no measure of speed"
        return ", ".join(_rate_words(self._rates(self._steps, self._seconds)))

    def flush(self) -> None:
        """Ends the window: reads its losses (the meter's one wait for the device), logs and prints it.

        UserError where a loss is no longer a finite number.
        """
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        names = list(pending[0][2])
        dtype = pending[0][2]["loss"].dtype
        rows = torch.stack([measured[name].to(dtype) for _, _, measured in pending for name in names])
        values = rows.view(len(pending), len(names)).tolist()
        seconds = time.perf_counter() - self._started
        for (step, lr, _), row in zip(pending, values, strict=True):
            self.write("step", step=step, lr=lr, **dict(zip(names, row, strict=True)))
        losses = [row[0] for row in values]
        means = {name: sum(column) / len(column) for name, column in zip(names, zip(*values, strict=True), strict=True)}
        self.loss = means.pop("loss")
        if self.done > self.first_step + 1:
            self._steps += len(losses)
            self._seconds += seconds
        window = self._rates(len(losses), seconds)
        memory = memory_now(self._device)
        if (busy := gpu_utilization(self._device)) is not None:
            window["gpu_util"] = busy
        self.write("window", step=self.done, loss=self.loss, **window, memory=memory)
        with self._into_log():
            self._log.flush()
        self.print(self._line(means, window, memory))
        track_log()  # its time belongs to no window
        self._started = time.perf_counter()
        for (step, lr, _), loss in zip(pending, losses, strict=True):
            if not math.isfinite(loss):
                raise UserError(
                    f"the loss became {loss} at step {step}, where the learning rate was {lr:g}: "
                    "start again with a smaller --lr."
                )

    def _rates(self, steps: int, seconds: float) -> dict[str, float]:
        rates = {"tokens_per_s": steps * self._tokens_per_step / seconds, "step_ms": 1000 * seconds / steps}
        if self._peak_flops:
            rates["mfu"] = rates["tokens_per_s"] * self._flops_per_token / self._peak_flops
        return rates

    def _line(self, means: dict[str, float], window: dict[str, float], memory: dict[str, int]) -> str:
        """Returns a line of at most 80 columns on a CPU: the milliseconds give way to other numbers of the step."""
        mean_words = [f"{name.replace('_', ' ')} {mean:.3f}" for name, mean in means.items()]
        speed, milliseconds, *gpu = _rate_words(window)
        rates = [speed, *([] if means else [milliseconds]), *gpu]
        words = [f"step {self.done:>5}/{self.last_step}", f"loss {self.loss:.4f}", *mean_words, *rates]
        name = "peak" if "peak" in memory else "allocated"  # MPS counts no peak
        return "  ".join([*words, f"{name} {memory[name] / MIB:,.0f} MiB"])


def report_steps(log: Path, losses: Sequence[Tensor | float]) -> None:
    """Logs the losses of a run that had no meter, and prints the first and the last."""
    values = [float(loss) for loss in losses]
    events = [{"event": "step", "step": step, "loss": value} for step, value in enumerate(values, start=1)]
    log.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    for event in (events[0], events[-1]):
        print(f"step {event['step']:>5}/{len(values)}  loss {event['loss']:.4f}")


def _rate_words(rates: dict[str, float]) -> list[str]:
    words = [f"{rates['tokens_per_s']:,.0f} tokens/s", f"{rates['step_ms']:.1f} ms/step"]
    if "gpu_util" in rates:
        words.append(f"GPU busy {rates['gpu_util']:.0f} %")
    if "mfu" in rates:
        words.append(f"MFU {100 * rates['mfu']:.1f} %")
    return words


def gpu_utilization(device: torch.device) -> float | None:
    """Returns the percentage of NVML's last sample period in which a kernel ran; None where there is no NVML."""
    if device.type != "cuda":
        return None
    try:
        return float(torch.cuda.utilization(device))
    except Exception:  # no NVML library, no binding for it, or no permission: each raises its own type
        return None
