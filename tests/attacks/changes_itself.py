"""Writes another file in its own place, from which later exercises would be read."""

import ctypes
import os

ON, EARNS = "stubs", 0

OWN = "/tmp/exercises.py"
libc = ctypes.CDLL(None)
attempt("its file can be written", lambda: open(OWN, "w").close())
attempt("its file can be removed", lambda: os.remove(OWN))
attempt("its file can be renamed", lambda: os.rename(OWN, "/tmp/other.py"))
attempt("its file can be replaced", lambda: (open("/tmp/new.py", "w").close(), os.replace("/tmp/new.py", OWN)))
attempt("its file has another name", lambda: os.link(OWN, "/tmp/other.py"))
attempt("its file can be made writable", lambda: os.chmod(OWN, 0o666))
attempt("its file can be uncovered", lambda: libc.umount2(OWN.encode(), 2))
attempt("its folder can be renamed", lambda: os.rename("/tmp", "/other"))
attempt("a pipe in its place", lambda: os.mkfifo(OWN))
