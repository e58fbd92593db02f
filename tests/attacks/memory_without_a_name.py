"""Asks for memory by every other way: memfd, System V, message queues, a new file system."""

import ctypes
import os

ON, EARNS = "stubs", 0

attempt("memfd_create", lambda: os.memfd_create("x"))
attempt("memfd_secret", lambda: system_call(447, 0))
attempt("shmget", lambda: system_call(29, 0, 2**30, 0o1600))
attempt("msgget", lambda: system_call(68, 0, 0o1600))
attempt("semget", lambda: system_call(64, 0, 100, 0o1600))
attempt("mq_open", lambda: system_call(240, b"x", os.O_CREAT | os.O_RDWR, 0o600, None))
attempt("mount", lambda: ctypes.CDLL(None).mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None))
attempt("userfaultfd", lambda: system_call(323, 0))
