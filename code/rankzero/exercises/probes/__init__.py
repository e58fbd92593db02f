"""Probes: everything that runs beside a learner's code, and the processes it runs in."""
