"""Explorable: the predicted memory ledger at four moments of a step, by batch size, sequence length and recipe."""

from rankzero.publish.site.views.calculator import facts

FIGURES = ("memory-over-a-step", "lab-01-four-moments")
SCRIPTS = ("ledger.js",)
DATA = {"facts": facts()}
