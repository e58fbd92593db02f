"""Starts as many busy processes as it may, of a program that takes no memory, and does nothing itself."""

import os
import time

ON, EARNS, SECONDS, STATUS = "stubs", 0, 3.0, "timeout"

try:
    while True:
        os.posix_spawn("/bin/sh", ["sh", "-c", "while :; do :; done"], {})
except OSError:
    time.sleep(60)
