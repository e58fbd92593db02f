"""Writes where the next submission, the grader or the machine would read."""

import os
import sys

ON, EARNS = "reference", 50

CODE = next(path for path in sys.path if os.path.exists(f"{path}/rankzero"))
places = [
    "/",
    "/usr",
    "/usr/lib",
    "/etc",
    "/dev",
    "/bin",
    ROOT,
    CODE,
    f"{CODE}/..",
    f"{CODE}/rankzero",
    sys.prefix,
    "/root",
]
places += [os.path.dirname(os.__file__), os.path.dirname(sys.executable), os.path.dirname(SECRET)]
for place in places:
    attempt(f"{place} takes a file", lambda place=place: open(f"{place}/canary", "w").close())
for path in (sys.executable, os.__file__, "/etc/passwd", "/etc/hosts", f"{CODE}/rankzero/__init__.py", SECRET):
    attempt(f"{path} can be written", lambda path=path: open(path, "r+b").close())
    attempt(f"{path} can be removed", lambda path=path: os.remove(path))
attempt("/proc/sys can be written", lambda: open("/proc/sys/kernel/core_pattern", "w").write("|/tmp/x"))
attempt("namespaces can be allowed", lambda: open("/proc/sys/user/max_user_namespaces", "w").write("9"))
attempt("sysrq", lambda: open("/proc/sysrq-trigger", "w").write("h"))
