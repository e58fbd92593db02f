"""When nothing fits, the leanest choice comes back as if it did. The run starts, and dies an hour later where a
sentence now would have said so."""

from exercises import peak_bytes

EXERCISE = "plan"
FAILS = ("plan/refuses",)
READ = "handbook/memory.md#down-to-a-budget"


def plan(layers, budget):
    choices = [[p for p in range(len(layers)) if choice >> p & 1] for choice in range(2 ** len(layers))]
    fitting = [places for places in choices if peak_bytes(layers, places) <= budget]
    return min(
        fitting or [min(choices, key=lambda places: peak_bytes(layers, places))],
        key=lambda places: sum(layers[place].flops for place in places),
    )
