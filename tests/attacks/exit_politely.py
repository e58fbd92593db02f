"""Calls sys.exit(0) in one exercise and raises KeyboardInterrupt in another."""

import sys

ON, EARNS, STATUS = "reference", 30, "error"


def learning_rate(*_):
    sys.exit(0)


def evaluate(*_):
    raise KeyboardInterrupt
