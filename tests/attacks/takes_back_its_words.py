"""Opens the reading end of the pipe of the replies, and takes words back before the supervisor can, so that it waits."""

import os
import time

ON, EARNS, STATUS, SECONDS = "stubs", 0, "timeout", 1.5

writer = inside()["result"]
reader = os.open(f"/proc/self/fd/{writer}", os.O_RDONLY | os.O_NONBLOCK)
until = time.monotonic() + 0.7
while time.monotonic() < until:
    os.write(writer, b"x\n")
    for _ in range(200):
        try:
            os.read(reader, 2)
        except BlockingIOError:
            break
time.sleep(600)
