"""Measuring a training step: memory, phases, traces."""
