"""Observation: the part of triage that runs beside the script, in each of its processes."""
