"""Buffers of `fully_shard`: the weights and gradients that are gathered and reduced together.

The units are those of the usual calls: on each block, then on the model, whose unit ("root") holds all weights outside
blocks. The time at which each buffer is held was read from PyTorch's `FSDPMemTracker`: see handbook/planning.md.
"""

from dataclasses import dataclass

from rankzero.ledger.ledger import BEGIN, END, FORWARD, Kind, Row
from rankzero.ledger.models import Weight
from rankzero.ledger.plan.layout import Layout
from rankzero.ledger.recipes import Recipe


@dataclass(frozen=True)
class Unit:
    """Weights that travel in one collective: those of a block, or of the root, which are those in no block."""

    name: str
    copies: int
    numbers: int  # elements of one copy, padded so that all ranks' parts are as large as the first part


def units_of(weights: list[Weight], layout: Layout) -> list[Unit]:
    """Returns the units that `fully_shard` gathers, if it is called on each block and then on the model."""
    units = []
    for name, inside in (("root", False), ("block", True)):
        chosen = [weight for weight in weights if weight.in_block is inside]
        shards = layout.shards if layout.zero == 3 else 1
        numbers = sum(
            weight.shard(layout.tensor, shards) * shards * (1 if inside else weight.copies) for weight in chosen
        )
        if chosen:
            units.append(Unit(name, chosen[0].copies if inside else 1, numbers))
    return units


def buffers_of(weights: list[Weight], recipe: Recipe, layout: Layout) -> tuple[list[Row], list[Row], list[Row]]:
    """Returns gathered weights and whole gradients of units. The root stays gathered through forward and backward.

    Three lists, by the time they are held: forward and backward; while backward is in a block; when backward ends.
    """
    units = {unit.name: unit for unit in units_of(weights, layout)}
    block, blocks = units["block"].numbers, units["block"].copies
    root = units["root"].numbers if "root" in units else 0
    own, reduced = recipe.weight, recipe.gradient or recipe.accumulator
    head = next((w for w in reversed(weights) if w.matmul and not w.in_block), None)  # None on earlier pipeline ranks
    tied = head is not None and head.group == "token embedding"
    head_bytes = head.numbers(layout.tensor) * own if head else 0

    def row(name: str, size: int, formula: str, *phases: str) -> Row:
        return Row(Kind.COMMUNICATION, name, size, formula, phases)

    each = f"{own} B per parameter"
    gathered, kept = (min(2, blocks), 0) if layout.reshard else (0, blocks)  # blocks
    always = [
        row("weights of the root", root * own, each, FORWARD, BEGIN),
        row("weights of all blocks", kept * block * own, each, FORWARD, BEGIN),
    ]
    in_block = [
        row("weights of two blocks", gathered * block * own, each, BEGIN),
        row("gradients of a block, whole", block * own, each, BEGIN),
        row("reduce-scatter of a block", block * reduced, f"{reduced} B per parameter", BEGIN),
        row("gradient of the output layer", head_bytes, each, BEGIN),
    ]
    if tied:  # the gradients of its two uses, and their sum; the root is still gathered
        at_end = [
            row("weights of the root, still", root * own, each, END),
            row("gradients of the tied matrix", 3 * head_bytes, f"3·V·C·{own}", END),
            row("reduce-scatter of the first block", block * reduced, f"{reduced} B per parameter", END),
        ]
    else:
        at_end = [
            row("gradients of the root, whole", root * own, each, END),
            row("reduce-scatter of the root", root * reduced, f"{reduced} B per parameter", END),
        ]
    return always, in_block, at_end
