"""Writes gigabytes into the pipe of the replies, with the real token, as one line without an end."""

import os

ON, EARNS, STATUS, SECONDS = "stubs", 0, "oom", 20.0

held = inside()
os.write(held["result"], held["token"].encode())
while True:
    os.write(held["result"], b"x" * 65536)
