"""Starts 32 busy processes of a program that takes no memory, and does nothing itself."""

import os
import time

ON, EARNS, SECONDS, STATUS = "stubs", 0, 3.0, "timeout"

for _ in range(32):
    os.posix_spawn("/bin/sh", ["sh", "-c", "while :; do :; done"], {})
time.sleep(60)
