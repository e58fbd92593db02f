"""A hundred thousand signs before a number, for a compiler that counts on its stack."""

EARNS, STATUS = 0, "error"
FILE = [("x = ", 1), ("-", 100_000), ("1\n", 1)]
