"""Explorable: buckets of gradients that are exchanged while backward runs."""

from rankzero.figures.charts import measured_value


def sends(forward: float, backward: float, exchange: float, buckets: int) -> list[float]:
    """Returns the times at which equal buckets are sent: each after its part of backward and the bucket before it."""
    times = []
    free = 0.0
    for bucket in range(buckets):
        free = max(free, forward + backward * (bucket + 1) / buckets)
        times.append(free)
        free = free + exchange / buckets
    return times


FORMULAS = (sends,)
# Milliseconds of the running example: 16,384 tokens per rank, one rank per node (50 GB/s).
DATA = {name: measured_value("ddp-exchange-hidden")[name] for name in ("forward", "backward", "exchange")}
