"""Forges, in the last exercise, the reply that says the whole file could not be loaded."""

ON, EARNS, STATUS = "reference", 40, "error"


def load_checkpoint(*_):
    forge({"status": "error", "text": "exercises.py does not load", "loading": True})
