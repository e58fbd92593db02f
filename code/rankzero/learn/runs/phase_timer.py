"""Phase timer: the time of each phase of a step, on each rank, which shows the rank that the others wait for."""

import time
from collections import defaultdict

import torch
import torch.distributed as dist

from rankzero.learn.runs.step_meter import StepMeter


class PhaseTimer:
    """Times the phases of some steps on this rank.

    All ranks leave backward together, since each rank waits there for the gradients of all ranks. So a slow rank does
    not show in the step time, which is the same on all ranks: the slow rank has the longest forward, and the other
    ranks have the longest backward.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._steps, self._last = 0, 0.0

    def start(self) -> None:
        """Begins a step."""
        self._steps += 1
        self._last = self._now()

    def record(self, phase: str) -> None:
        """Ends a phase, which began at `start` or where the phase before it ended."""
        before, self._last = self._last, self._now()
        self._seconds[phase] += self._last - before

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)  # otherwise only the launching of kernels would be timed
        return time.perf_counter()

    def by_rank(self) -> dict[str, list[float]]:
        """Returns the mean ms per step of each phase, by rank, and resets the timer. Every rank must call it."""
        own_times = {phase: 1000 * seconds / self._steps for phase, seconds in self._seconds.items()}
        times_of_ranks: list[dict[str, float]] = [{}] * dist.get_world_size()
        dist.all_gather_object(times_of_ranks, own_times)
        self._seconds.clear()
        self._steps = 0
        return {phase: [times[phase] for times in times_of_ranks] for phase in own_times}

    def report(self, meter: StepMeter) -> None:
        """Logs the phases by rank as an event `ranks` and prints them. Every rank must call it."""
        if phases := self.by_rank():
            meter.write("ranks", step=meter.done, **{f"{phase}_ms": times for phase, times in phases.items()})
            words = [f"{phase} {', '.join(f'{ms:.1f}' for ms in times)}" for phase, times in phases.items()]
            meter.print(f"step {meter.done:>5}  ms by rank: {'; '.join(words)}")
