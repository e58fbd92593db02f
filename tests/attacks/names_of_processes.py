"""Gives its processes names that look like lines of the kernel's tables, to be counted wrongly."""

import ctypes
import os
import time

ON, EARNS, STATUS, MEMORY, SECONDS = "stubs", 0, "oom", 512, 20.0

for name in (b"RssAnon:\t0 kB", b"a\nRssAnon: 0 kB", b") R 1 1", b"\xff\xfe"):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
        held = b"x" * (400 * 2**20)
        time.sleep(60)
time.sleep(60)
