"""Puts another file in its place once it is loaded, and a pipe without a writer after that."""

import os

ON, EARNS, SECONDS, STATUS = "stubs", 0, 3.0, "fail"

os.remove("/tmp/exercises.py")
os.mkfifo("/tmp/exercises.py")
