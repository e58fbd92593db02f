"""What all layers keep, and the largest recomputed inside on top. The largest may be an early layer: when backward
reaches it, those behind it are gone, and its own input counts twice. Too careful a bound recomputes layers that would
fit."""

EXERCISE = "plan"
FAILS = ("plan/peak",)
READ = "handbook/memory.md#down-to-a-budget"


def peak_bytes(layers, recomputed):
    kept = sum(layer.boundary if place in recomputed else layer.inside for place, layer in enumerate(layers))
    return kept + max((layers[place].inside for place in recomputed), default=0)
