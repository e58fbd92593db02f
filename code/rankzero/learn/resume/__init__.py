"""A run that may be killed at any moment: its folder, its log, reports of its saves, and a trial with kills."""
