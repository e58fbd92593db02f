"""Has a thread that goes on after the exercise returned, and writes replies of its own beside the probe's."""

import os
import threading

ON, EARNS, CHANGES = "stubs", 0, True

held = inside()


def go_on():
    while True:
        os.write(held["result"], held["token"].encode() + b'{"status": "answered", "answers": "{}"}\n')


threading.Thread(target=go_on, daemon=True).start()
