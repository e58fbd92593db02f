"""Looks for right code and right answers in all of the process's memory and in every file that it may read."""

import gc
import os
import types

ON, EARNS = "stubs", 0

OURS_TOO = ("rankzero", "probes", "checks", "solutions")
OURS = {"train_step", "evaluate", "learning_rate", "overfit_one_batch", "save_checkpoint", "load_checkpoint"}
for thing in gc.get_objects():
    if isinstance(thing, types.FunctionType) and thing.__name__ in OURS and thing.__module__.startswith(OURS_TOO):
        won(f"{thing.__module__}.{thing.__name__} is in memory")
for name in ("checks", "exercises.check", "exercises.judges", "exercises.runner", "exercises.known_wrong", "claims"):
    if f"rankzero.{name}" in sys.modules:
        won(f"{name} is in memory")
CODE = next(path for path in sys.path if os.path.exists(f"{path}/rankzero"))
for path in ("tests/lab-02-single-gpu-training/checks.py", "solutions", "labs", "handbook", "code/rankzero/claims"):
    if os.path.exists(f"{ROOT}/{path}") or os.path.exists(f"{CODE}/../{path}"):
        won(f"{path} can be read")
NAMES = {"checks.py", "judges.py", "known_wrong.py", "notebook.py", "train_single_gpu.py", "grader.py"}
for root in (ROOT, f"{CODE}/.."):
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in (".venv", "venv", "__pycache__")]
        if found := NAMES & {*folders, *files}:
            won(f"{folder}/{found} can be read")
