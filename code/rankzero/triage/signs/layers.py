"""Signs of layers: dead units and the size of updates."""

from collections.abc import Iterator

from rankzero.triage.record import Record
from rankzero.triage.signs.sign import SYMPTOM, Sign, middle, sign_if

FEWEST_STEPS = 20
DEAD = 0.6  # share of a layer's units
RATIOS = (1e-7, 0.5)  # of update to weight, outside of which training is next to impossible


def signs(record: Record) -> Iterator[Sign]:
    """Yields the signs of each trained model."""
    for model in record.models:
        if len(model.steps) < FEWEST_STEPS:
            continue
        if model.dead:
            worst = max(model.dead, key=lambda name: model.dead[name])
            yield sign_if(
                model.dead[worst] > DEAD,
                "dead units",
                f"{model.dead[worst]:.0%} of the units of {worst} are 0 for 8 batches",
                f"less than {DEAD:.0%}",
                "dead-units",
                worst,
            )
        ratios = [layer.update_ratio for layer in model.layers if layer.update_ratio and len(layer.shape) >= 2]
        if ratios:
            yield sign_if(
                middle(ratios) > RATIOS[1],
                "update / weight",
                f"{middle(ratios):.0e} in the middle layer, at the last look",
                "about 1e-3",
                "learns-nothing",
                strength=SYMPTOM,
            )
