"""If it does not fit, everything is recomputed: one switch, as many trainers have it. Nearly every budget between the
two is met by fewer FLOPs."""

from exercises import peak_bytes

EXERCISE = "plan"
FAILS = ("plan/cheapest",)
READ = "handbook/memory.md#down-to-a-budget"


def plan(layers, budget):
    for places in ([], list(range(len(layers)))):
        if peak_bytes(layers, places) <= budget:
            return places
    raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
