"""Explorable: weights and gradients in memory at each layer of a step, by the way of sharding, as measured."""

from rankzero.figures.charts import measured_chart

# Memory in layers at each of the 16 layer computations of a step, by the way of sharding.
DATA = {name: [point[1] for point in line] for name, line in measured_chart("peak-by-wrapping").lines.items()}
