"""Triage: signs of known bugs in a training script, seen from outside while it runs."""
