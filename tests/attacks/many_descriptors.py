"""Opens files until there is no number left for one more."""

import os

ON, EARNS = "stubs", 0

held = []
try:
    while len(held) < 5000:
        held.append(os.open("/dev/null", os.O_RDONLY))
        held += os.pipe()
    won("five thousand open files")
except OSError:
    pass
