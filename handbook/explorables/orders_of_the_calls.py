"""Explorable: the losses of four orders of the calls of a step, as far as a reader has seen them."""

from rankzero.figures.charts import measured_chart

# (step, loss) of each run.
DATA = {name: [[p[0], p[1]] for p in line] for name, line in measured_chart("never-clearing-climbs").lines.items()}
