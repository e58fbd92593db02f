"""Ignores every signal that can be ignored, stops the alarm, and never ends."""

import signal

ON, EARNS, STATUS, SECONDS = "stubs", 0, "timeout", 1.5

for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.setitimer(signal.ITIMER_REAL, 0)
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
while True:
    pass
