"""Removes its own file and every other file of its folder, and puts a link in its place."""

import os
import shutil

ON, EARNS = "stubs", 0

attempt("its file can be removed", lambda: os.remove("/tmp/exercises.py"))
shutil.rmtree("/tmp", ignore_errors=True)
attempt("a link in its place", lambda: os.symlink("/proc/1/mem", "/tmp/exercises.py"))
