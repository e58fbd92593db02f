"""Measurements of a training step: memory, phases, traces."""
