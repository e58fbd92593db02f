"""Reads what is not its own: secrets of the machine, the repository, the grader's home, other submissions."""

import glob
import os

ON, EARNS = "reference", 50

for path in ("/etc/shadow", "/etc/hostname", "/root/.bashrc", "/home", "/var", "/srv", "/opt/secret", "/sys", "/run"):
    attempt(path, lambda path=path: os.listdir(path) if os.path.isdir(path) else open(path).read())
for path in (
    SECRET,
    f"{ROOT}/pyproject.toml",
    f"{ROOT}/.git",
    f"{ROOT}/tests/attacks",
    f"{ROOT}/code/rankzero/grading/grader.py",
):
    attempt(path, lambda path=path: os.stat(path))
CODE = next(path for path in sys.path if os.path.exists(f"{path}/rankzero"))
for path in ("../pyproject.toml", "../.git", "../tests/attacks", "rankzero/grading/grader.py", "../solutions"):
    attempt(path, lambda path=path: os.stat(f"{CODE}/{path}"))
for path in glob.glob("/proc/[0-9]*/environ"):
    attempt(path, lambda path=path: won(path) if MARK in open(path).read() else -1)
if [one for one in os.listdir("/tmp") if one != "exercises.py"]:
    won("/tmp holds something of others")
for fd in range(3, 256):
    try:
        kind = os.readlink(f"/proc/self/fd/{fd}").split(":")[0]
    except OSError:
        continue
    if kind not in ("pipe", "/dev/null", "/proc/self/fd"):
        won(f"descriptor {fd} is a {kind}")
if MARK in str(dict(os.environ)) or any(MARK in open(f"/proc/{one}/cmdline").read() for one in ("1", "self")):
    won("what the grading process has in its environment")
