"""Gives huge pages to many pipes, which keep them for one byte each."""

import ctypes
import mmap
import os
import time

ON, EARNS, MEMORY, SECONDS = "stubs", 0, 256, 20.0

HUGE = 2**21
libc = ctypes.CDLL(None)


class Part(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def give(pipe):
    with mmap.mmap(-1, 2 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        area.madvise(mmap.MADV_HUGEPAGE)
        first = ctypes.c_char.from_buffer(area)
        start = (ctypes.addressof(first) + HUGE - 1) // HUGE * HUGE
        ctypes.memset(start, 1, HUGE)
        del first
        return libc.vmsplice(pipe, ctypes.byref(Part(start, 1)), 1, 2)


pipes = [os.pipe() for _ in range(100)]
attempt("vmsplice", lambda: give(pipes[0][1]))
os.write(pipes[0][1], b"x" * 100)
attempt("tee", lambda: libc.tee(pipes[0][0], pipes[1][1], ctypes.c_size_t(100), 2))
attempt("splice", lambda: os.splice(pipes[0][0], pipes[1][1], 100))
