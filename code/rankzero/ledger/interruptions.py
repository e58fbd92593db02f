"""Interruptions: expected machine time and dollars of a run that fails or loses its spot machine, by saving interval.

All times are in hours. A *failure* loses the work since the last save. A *preemption*, by which a cloud takes a spot
machine back, loses no work if its notice is long enough for a save. Source: J. T. Daly, A higher order estimate of the
optimum checkpoint interval, 2006 (https://doi.org/10.1016/j.future.2004.11.016); preemptions with a notice are ours.
"""

import math
from dataclasses import dataclass

SHORTEST, LONGEST = 1e-4, 1e4  # hours between two saves, among which the best interval is searched
MOST = 700.0  # interruptions in a segment on average; exp(-MOST) is still a float


def machine_time(
    interval: float, save: float, restart: float, failures: float, preemptions: float = 0.0, notice: float = 0.0
) -> float:
    """Returns the expected hours of machine time per hour of training, with `interval` hours between two saves.

    Training waits `save` for each save, and `restart` after each interruption. `failures` and `preemptions` are means
    per hour; both are exponentially distributed, and none comes during a restart. A preemption whose `notice` is long
    enough for a save loses no work. If each interruption loses work, this is Daly's
    (M + R) (exp((t + save) / M) - 1) / t, with t = `interval`, R = `restart` and a mean M between interruptions.
    """
    warned = preemptions if notice >= save else 0.0
    rate = failures + preemptions
    if rate == 0:
        return (interval + save) / interval
    segment = interval + save
    finished = math.exp(-rate * segment)
    time = -math.expm1(-rate * segment) / rate * (1 + rate * restart + warned * save)
    work = interval * finished + warned * (-math.expm1(-rate * interval) / rate - interval * finished) / rate
    return time / work


def dollars(
    hours: float, price: float, interval: float, save: float, restart: float, failures: float, preemptions: float,
    notice: float,
) -> float:  # fmt: skip
    """Returns the expected dollars for `hours` of training at a `price` per hour of machine time."""
    return hours * price * machine_time(interval, save, restart, failures, preemptions, notice)


@dataclass(frozen=True)
class Interruptions:
    """Interruptions of a run: times in hours, both rates in events per hour of machine time."""

    save: float  # for which training waits
    restart: float = 0.0  # from an interruption until training continues
    failures: float = 0.0
    preemptions: float = 0.0
    notice: float = 0.0  # from the announcement of a preemption to the end of the machine

    @property
    def losses(self) -> float:
        """The interruptions per hour that lose work: failures, and preemptions whose notice is shorter than a save."""
        return self.failures + (self.preemptions if self.notice < self.save else 0.0)

    def machine_time(self, interval: float) -> float:
        """Returns `machine_time` of these interruptions; infinity where a segment is hardly ever finished."""
        if (self.failures + self.preemptions) * (interval + self.save) > MOST:
            return math.inf
        return machine_time(interval, self.save, self.restart, self.failures, self.preemptions, self.notice)

    def best_interval(self) -> float:
        """Returns the interval with the least machine time; infinity if no interruption loses work."""
        if self.losses == 0:
            return math.inf
        low, high = math.log(SHORTEST), math.log(LONGEST)
        for _ in range(200):  # the machine time has one minimum
            third = (high - low) / 3
            if self.machine_time(math.exp(low + third)) < self.machine_time(math.exp(high - third)):
                high -= third
            else:
                low += third
        return math.exp(low)

    def dollars(self, interval: float, hours: float, price: float) -> float:
        """Returns the expected dollars for `hours` of training at a `price` per hour of machine time."""
        return hours * price * self.machine_time(interval)


def young(save: float, between: float) -> float:
    """Returns Young's interval, sqrt(2 save between), for a mean time `between` failures; all in the same unit."""
    return math.sqrt(2 * save * between)
