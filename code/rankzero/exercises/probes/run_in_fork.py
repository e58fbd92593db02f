"""Running a part of a probe in a fork, whose memory ends with it: only files that it writes remain.

As in rank_probes.py, the process that forks must not have run a backward pass, which may start threads.
"""

import json
import multiprocessing
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from rankzero.errors import out_of_memory
from rankzero.exercises.probes.answers import MESSAGE_BYTES, Answers, decode, encode
from rankzero.exercises.probes.loader import cause_text, error_text
from rankzero.learn.distributed.world import WorldError


def run_in_fork(learner: ModuleType, work: Callable[[], Answers]) -> Answers:
    """Returns what `work()` returns in a fork of this process.

    MemoryError or NotImplementedError if `work` raises one, WorldError with the cause for any other failure.
    """
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        receiver.close()
        _child(learner, work, sender)
    sender.close()
    raw: dict[str, Any] = {}
    with receiver, suppress(EOFError, OSError):
        raw = json.loads(receiver.recv_bytes(MESSAGE_BYTES))
    os.waitpid(child, 0)
    if "todo" in raw:
        raise NotImplementedError(raw["todo"])
    if "oom" in raw:
        raise MemoryError(raw["oom"])
    if "answers" not in raw:
        raise WorldError(str(raw.get("error", "the process ended before it answered")), cause=str(raw.get("cause", "")))
    return decode(raw["answers"].encode())


def _child(learner: ModuleType, work: Callable[[], Answers], sender: Connection) -> NoReturn:
    try:
        try:
            reply = {"answers": encode(work()).decode()}
        except NotImplementedError as error:
            reply = {"todo": str(error)}
        except BaseException as error:
            text = error_text(error, Path(str(learner.__file__)))
            reply = {"oom": text} if out_of_memory(error) else {"error": text, "cause": cause_text(error)}
        sys.stdout.flush()
        sender.send_bytes(json.dumps(reply).encode())
    finally:
        os._exit(0)
