"""Greedy: the layer that saves the most bytes first, until it fits. It overlooks what the layer costs, and that
several small savings may be cheaper."""

from exercises import peak_bytes

EXERCISE = "plan"
FAILS = ("plan/cheapest",)
READ = "handbook/memory.md#down-to-a-budget"


def plan(layers, budget):
    places = []
    for place in sorted(range(len(layers)), key=lambda place: layers[place].boundary - layers[place].inside):
        if peak_bytes(layers, places) <= budget:
            break
        places.append(place)
    if peak_bytes(layers, places) > budget:
        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
    return sorted(places)
