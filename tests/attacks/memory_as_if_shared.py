"""Takes memory in twelve new programs, each as large as the supervisor, with which they share nothing."""

import subprocess
import sys
import time

ON, EARNS, STATUS, MEMORY, SECONDS = "stubs", 0, "oom", 256, 20.0

program = "import time; held = b'x' * (170 * 2**20); time.sleep(60)"
for _ in range(12):
    subprocess.Popen([sys.executable, "-I", "-S", "-c", program])
time.sleep(60)
