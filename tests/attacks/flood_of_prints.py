"""Prints without an end, a hundred million letters a line."""

import os

ON, EARNS, STATUS, SECONDS = "stubs", 0, "timeout", 1.5

while True:
    for _ in range(1600):
        os.write(1, b"\x1b[31m<h1>" * 8192)
    os.write(2, b"\n")
