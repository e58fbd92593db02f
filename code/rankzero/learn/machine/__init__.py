"""This machine: its devices, their peak rates, and what it can run."""
