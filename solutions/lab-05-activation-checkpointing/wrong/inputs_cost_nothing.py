"""A recomputed layer is taken to keep nothing. It keeps its input: of many layers that adds up, and is all there is
between forward and backward when everything is recomputed."""

EXERCISE = "plan"
FAILS = ("plan/peak",)
READ = "handbook/memory.md#down-to-a-budget"


def peak_bytes(layers, recomputed):
    peak = before = 0
    for place, layer in enumerate(layers):
        peak = max(peak, before + layer.inside)
        before += 0 if place in recomputed else layer.inside
    return peak
