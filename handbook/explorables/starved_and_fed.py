"""Explorable: timeline of a loader's workers and the device, and the share of the time in which the device waits."""

from rankzero.figures.content.input_pipeline import loader_timeline, waiting_share

FORMULAS = (loader_timeline, waiting_share)
