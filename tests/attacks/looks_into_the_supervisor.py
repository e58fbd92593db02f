"""Reads and writes the memory, files and environment of the supervisor, which holds the next requests."""

import ctypes
import os

ON, EARNS = "reference", 50

attempt("/proc/1/mem to read", lambda: open("/proc/1/mem", "rb"))
attempt("/proc/1/mem to write", lambda: open("/proc/1/mem", "r+b"))
attempt("/proc/1/environ", lambda: open("/proc/1/environ").read())
attempt("/proc/1/maps", lambda: open("/proc/1/maps").read(1))
attempt("/proc/1/fd", lambda: os.listdir("/proc/1/fd"))
attempt("/proc/1/root", lambda: os.listdir("/proc/1/root"))
attempt("/proc/1/cwd", lambda: os.listdir("/proc/1/cwd"))
attempt("ptrace of the first", lambda: ctypes.CDLL(None).ptrace(16, 1, 0, 0))
attempt("process_vm_readv", lambda: system_call(310, 1, None, 0, None, 0, 0))
attempt("pidfd_getfd", lambda: system_call(438, os.pidfd_open(1), 0, 0))
child = os.fork()
if child == 0:
    import time

    time.sleep(60)
attempt("ptrace of a sibling", lambda: ctypes.CDLL(None).ptrace(16, child, 0, 0))
os.kill(child, 9)
os.waitpid(child, 0)
