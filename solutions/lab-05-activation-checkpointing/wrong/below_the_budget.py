"""A plan whose peak is exactly the budget is turned down. At most means that it fits; the last choice that does is
lost, and with it a budget that only this choice meets."""

from exercises import peak_bytes

EXERCISE = "plan"
FAILS = (
    "plan/fits",
    "plan/cheapest",
)
READ = "handbook/memory.md#down-to-a-budget"


def plan(layers, budget):
    choices = [[p for p in range(len(layers)) if choice >> p & 1] for choice in range(2 ** len(layers))]
    fitting = [places for places in choices if peak_bytes(layers, places) < budget]
    if not fitting:
        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
    return min(fitting, key=lambda places: sum(layers[place].flops for place in places))
