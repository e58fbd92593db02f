"""Ends the process while the file is imported, with the exit code of success."""

import os

ON, EARNS, STATUS = "stubs", 0, "killed"

os._exit(0)
