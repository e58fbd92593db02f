"""Grades what others hand in: collects it, probes it in a sandbox, judges outside, and reports."""
