"""A file of null bytes, and nothing else."""

EARNS, STATUS = 0, "error"
FILE = [(b"\x00", 10_000)]
