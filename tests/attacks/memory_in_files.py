"""Fills every folder that takes a file, in the memory of the machine, and punches holes to hide how large they are."""

ON, EARNS, STATUS, MEMORY = (
    "stubs",
    0,
    "oom",
    320,
)

import time

for folder in ("/tmp", "/dev/shm"):
    try:
        with open(f"{folder}/large", "wb") as file:
            file.truncate(2**27)
            while True:
                file.write(b"x" * 2**20)
    except OSError:
        pass
time.sleep(60)
