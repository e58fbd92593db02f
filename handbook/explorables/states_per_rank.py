"""Explorable: memory of weights, gradients and optimizer state per rank, by ZeRO stage and number of ranks."""

from rankzero.ledger.hardware import HARDWARE
from rankzero.ledger.predict import states_per_rank
from rankzero.ledger.recipes import OPTIMIZERS, RECIPES

FORMULAS = (states_per_rank,)
DATA = {
    "recipes": RECIPES,
    "optimizer": OPTIMIZERS["adamw"],
    "devices": {machine.name: machine.memory / 1e9 for machine in HARDWARE.values()},
}
