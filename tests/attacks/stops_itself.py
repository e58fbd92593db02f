"""Stops itself, and everybody else that it can reach, by a signal that cannot be caught."""

import os
import signal

ON, EARNS, STATUS, SECONDS = "stubs", 0, "timeout", 1.5

os.kill(os.getppid(), signal.SIGSTOP)
os.kill(1, signal.SIGSTOP)
os.kill(0, signal.SIGSTOP)
