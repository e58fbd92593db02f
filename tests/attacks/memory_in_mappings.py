"""Divides empty memory into tens of thousands of mappings, in many processes: tables of the kernel, without a page."""

import ctypes
import os
import time

ON, EARNS, STATUS, MEMORY, SECONDS = "stubs", 0, "oom", 2048, 20.0

PAGE, NUMBER, PRIVATE = 4096, 60_000, 0x4022
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
for _ in range(100):
    if os.fork() == 0:
        break
start = libc.mmap(None, ctypes.c_size_t(NUMBER * PAGE), 0, PRIVATE, -1, ctypes.c_long(0))
for number in range(0, NUMBER, 2):
    libc.mprotect(ctypes.c_void_p(start + number * PAGE), ctypes.c_size_t(PAGE), 1)
time.sleep(60)
