"""Leaves messages for other submissions: files, shared memory, sockets, semaphores, keys, and looks for them."""

import multiprocessing.shared_memory
import os
import socket

ON, EARNS, CHANGES = "reference", 50, True

MESSAGE = b"answers"
for place in ("/tmp", "/dev/shm", "/var/tmp", "/run", "/dev/pts", "/dev/mqueue", "/proc/self"):
    try:
        with open(f"{place}/message-for-the-next", "xb") as file:
            file.write(MESSAGE)
    except FileExistsError:
        pass
    except OSError:
        pass
server = socket.socket(socket.AF_UNIX)
try:
    server.bind("\0message-for-the-next")
except OSError:
    won("an abstract socket of another submission")
attempt("System V memory", lambda: system_call(29, 4711, 4096, 0o1666))
attempt("a key", lambda: system_call(248, b"user", b"message", MESSAGE, len(MESSAGE), -4))
