"""Writes the token over and over into the pipe of the replies: lines that are none, to win time."""

import os

ON, EARNS, SECONDS = "stubs", 0, 3.0

held = inside()
while True:
    os.write(held["result"], b"\n".join([held["token"].encode()] * 1000))
