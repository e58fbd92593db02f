"""A hundred thousand brackets inside each other, for a parser that counts on its stack."""

EARNS, STATUS = 0, "error"
FILE = [("x = ", 1), ("(", 100_000), (")", 100_000)]
