"""Takes memory in many small processes, which no limit of a single one sees, each of them a new program."""

import subprocess
import sys
import time

ON, EARNS, STATUS, MEMORY, SECONDS = "stubs", 0, "oom", 512, 20.0

program = "import time; held = b'x' * (60 * 2**20); time.sleep(60)"
for _ in range(60):
    subprocess.Popen([sys.executable, "-I", "-S", "-c", program])
    time.sleep(0.02)
time.sleep(60)
