"""Explorable: activations kept over forward and backward, by the length of the segments that are recomputed."""

from rankzero.ledger.segments import even, kept_over_a_step, plain_step

FORMULAS = (even, kept_over_a_step, plain_step)
