"""Runs a part of a probe in a process of its own, which takes what it has learned with it: only files are left behind.

As in `ranks`, the process that forks must have run no backward pass, which may start threads.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from rankzero.errors import out_of_memory
from rankzero.exercises.probes.answers import Answers, decode, encode
from rankzero.exercises.probes.frames import read_frame, write_frame
from rankzero.exercises.probes.loader import describe
from rankzero.learn.distributed.world import WorldError


def alone(learner: ModuleType, work: Callable[[], Answers]) -> Answers:
    """What `work()` returns in a fork of this process. Where it fails: MemoryError, or WorldError with the cause."""
    mine, its = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(mine)
        _child(learner, work, its)
    os.close(its)
    reply = read_frame(mine)
    os.close(mine)
    os.waitpid(child, 0)
    raw: dict[str, Any] = json.loads(reply or "{}")
    if "todo" in raw:
        raise NotImplementedError(raw["todo"])
    if "oom" in raw:
        raise MemoryError(raw["oom"])
    if "answers" not in raw:
        raise WorldError(str(raw.get("error", "the process ended before it answered")), cause=str(raw.get("cause", "")))
    return decode(raw["answers"].encode())


def _child(learner: ModuleType, work: Callable[[], Answers], its: int) -> NoReturn:
    try:
        try:
            reply = {"answers": encode(work()).decode()}
        except NotImplementedError as error:
            reply = {"todo": str(error)}
        except BaseException as error:
            text = describe(error, Path(str(learner.__file__)))
            reply = {"oom": text} if out_of_memory(error) else {"error": text, "cause": text.split(": ", 1)[-1]}
        sys.stdout.flush()
        write_frame(its, json.dumps(reply).encode())
    finally:
        os._exit(0)
