"""Checks: judges, reports, known-wrong solutions and diagnosis. No file here runs beside a learner's code."""
