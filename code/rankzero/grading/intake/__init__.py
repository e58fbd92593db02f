"""Intake: from a folder of submissions to one file per student and lab."""
