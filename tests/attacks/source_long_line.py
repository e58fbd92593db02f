"""A million letters in one line, and a number of a hundred thousand digits."""

EARNS, STATUS = 0, "error"
FILE = [("x = '", 1), ("a", 1_000_000), ("'\ny = ", 1), ("9", 100_000), ("\n", 1)]
