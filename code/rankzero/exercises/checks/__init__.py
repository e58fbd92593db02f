"""Checks: an exercise's judges, reports and misconceptions. No file here runs beside a learner's code."""
