"""Nothing."""

EARNS, STATUS = 0, "fail"
FILE = [("\n", 1)]
