"""Greedy: the most bytes a FLOP first, until it fits. Close, and not the least: the last layer taken may save far
more than was still needed, and a layer's saving counts only where the peak is behind it."""

from exercises import peak_bytes

EXERCISE = "plan"
FAILS = ("plan/cheapest",)
READ = "handbook/memory.md#down-to-a-budget"


def ratio(layer):
    return layer.flops / (layer.inside - layer.boundary)


def plan(layers, budget):
    places = []
    for place in sorted(range(len(layers)), key=lambda place: ratio(layers[place])):
        if peak_bytes(layers, places) <= budget:
            break
        places.append(place)
    if peak_bytes(layers, places) > budget:
        raise ValueError(f"no choice of layers to recompute fits into {budget} bytes.")
    return sorted(places)
