"""Takes a little more memory in each moment, in two processes."""

import os
import time

ON, EARNS, STATUS, MEMORY, SECONDS = "stubs", 0, "oom", 512, 20.0

os.fork()
held = []
while True:
    held.append(b"x" * (8 * 2**20))
    time.sleep(0.01)
