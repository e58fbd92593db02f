"""Asks the kernel to remember things for it: locks, larger pipes, rules, queues of events."""

import ctypes
import fcntl
import os
import socket

ON, EARNS = "stubs", 0

libc = ctypes.CDLL(None)
pipe = os.pipe()
file = os.open("/tmp/locked", os.O_RDWR | os.O_CREAT)
events = (ctypes.c_long * 1)()
attempt("a lock of one byte", lambda: fcntl.lockf(file, fcntl.LOCK_EX, 1, 7, 0))
attempt("a lock of an open file", lambda: fcntl.fcntl(file, 37, bytes(32)))
attempt("a larger pipe", lambda: fcntl.fcntl(pipe[1], 1031, 2**20))
attempt("inotify", lambda: libc.inotify_init1(0))
attempt("fanotify", lambda: libc.fanotify_init(0, 0))
attempt("Landlock", lambda: system_call(444, None, 0, 1))
attempt("asynchronous reads", lambda: libc.io_setup(8, events))
attempt("a filter", lambda: libc.prctl(22, 1, 0, 0, 0))
attempt("another filter", lambda: system_call(317, 1, 0, None))
attempt("TIPC", lambda: socket.socketpair(30, socket.SOCK_STREAM))
with socket.socket() as one:
    attempt("a larger buffer", lambda: one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**22))
