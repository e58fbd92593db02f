"""Takes all the time there is and computes nothing, which is how a busy machine's victim looks."""

import time

ON, EARNS, STATUS, SECONDS = "stubs", 0, "timeout", 1.5

time.sleep(600)
