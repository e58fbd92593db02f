"""Explorable: expected dollars of a job on demand and on spot machines, by the interval between saves."""

from rankzero.figures.content.checkpoints_and_faults import INTERVALS

from rankzero.ledger.interruptions import dollars

FORMULAS = (dollars,)
DATA = {"intervals": INTERVALS, "hours": 100}
