"""Fills the buffers of many sockets, which is no process's memory."""

import os
import socket
import time

ON, EARNS, STATUS, MEMORY, SECONDS = "stubs", 0, "oom", 512, 20.0

for _ in range(20):
    if os.fork() == 0:
        break
held = []
try:
    while True:
        pair = socket.socketpair()
        for one in pair:
            attempt("a larger buffer", lambda: one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20))
            one.setblocking(False)
        held.append(pair)
        for one in pair:
            try:
                while True:
                    one.send(b"x" * 65536)
            except BlockingIOError:
                pass
except OSError:
    pass
time.sleep(60)
