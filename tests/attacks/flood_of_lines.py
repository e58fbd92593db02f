"""Writes nothing but ends of lines into the pipe of the replies."""

import os

ON, EARNS, STATUS, SECONDS = "stubs", 0, "timeout", 1.5

held = inside()
while True:
    os.write(held["result"], b"\n" * 65536)
