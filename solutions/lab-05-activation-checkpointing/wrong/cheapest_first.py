"""Greedy: the layer with the fewest FLOPs first, until it fits. Cheap layers often save little, so many of them are
recomputed where one would have done."""

from exercises import peak_bytes

EXERCISE = "plan"
FAILS = ("plan/cheapest",)
READ = "handbook/memory.md#down-to-a-budget"


def plan(layers, budget):
    places = []
    for place in sorted(range(len(layers)), key=lambda place: layers[place].flops):
        if peak_bytes(layers, places) <= budget:
            break
        places.append(place)
    if peak_bytes(layers, places) > budget:
        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
    return sorted(places)
