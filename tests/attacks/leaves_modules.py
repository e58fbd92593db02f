"""Leaves modules and settings in /tmp and in the environment, to be found by the next exercise or the next student."""

import os
import sys

ON, EARNS = "reference", 50

os.makedirs("/tmp/rankzero", exist_ok=True)
os.makedirs("/tmp/lib/python3.11/site-packages", exist_ok=True)
BAIT = "print('WON: imported', __name__, flush=True)\n"
for name in (
    "json",
    "torch",
    "numpy",
    "probes",
    "checks",
    "conftest",
    "sitecustomize",
    "usercustomize",
    "rankzero/__init__",
):
    with open(f"/tmp/{name}.py", "w") as file:
        file.write(BAIT)
with open("/tmp/lib/python3.11/site-packages/own.pth", "w") as file:
    file.write("import sys; print('WON: .pth', flush=True)\n")
os.environ |= {"PYTHONPATH": "/tmp", "PYTHONSTARTUP": "/tmp/json.py", "LD_PRELOAD": "/tmp/x.so", "TMPDIR": "/tmp"}
os.chdir("/tmp")
os.umask(0o077)
