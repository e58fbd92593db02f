"""Rank process, started by `world.py`: it joins the process group, calls the function, replies, and ends."""

import contextlib
import faulthandler
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from rankzero.errors import UserError
from rankzero.learn.distributed.rank_failures import is_consequence, place_of, summary_of, text_of

LINGER_S = 0.5  # time for which a finished rank keeps its connections while other ranks still run
# c10d's log of an error, which a world's report states better, and announcements of profiles.
QUIET_LOGS = {"TORCH_CPP_LOG_LEVEL": "FATAL", "KINETO_LOG_LEVEL": "99"}
SHOWN = "RANKZERO_SHOWN_ON_TERMINAL"  # set in the rank whose output the parent process shows on a terminal
NOT_UP, NO_STEP = -2, -1  # instead of a step's number: signals are not handled yet; no step has begun
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # the parent process passes them on
WHERE_SIGNAL = signal.SIGUSR1  # makes a rank write its stack to its file, even inside C
KINDS = {kind.__name__: kind for kind in (UserError, NotImplementedError, KeyboardInterrupt, MemoryError)}


def run_rank(
    number: int,
    payload: Any,
    folder: Path,
    steps: Any,
    settings: dict[str, Any],
    replies: Connection,
    prints: Connection,
) -> NoReturn:
    """Runs a rank from its first line to its end.

    `steps` is shared by all ranks. The reply on `replies` is ("done", value, interrupted) or ("raised", kind, text,
    place, consequence). `prints` takes what the rank writes to stdout and stderr.
    """
    if not settings["forked"]:
        os.setpgid(0, 0)  # Ctrl-C goes to the parent process, which passes the signal on
        threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
        os.environ.clear()
        os.environ.update(QUIET_LOGS | settings["environment"])
        if settings["on_terminal"] and number == 0:
            os.environ[SHOWN] = "1"
    received, wakeup = os.pipe()  # the numbers of all signals, with any handler
    os.set_blocking(received, False)
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    steps[number] = NO_STEP
    os.dup2(prints.fileno(), 1)
    os.dup2(prints.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    with (folder / f"rank-{number}").open("w") as stack_file:
        faulthandler.register(WHERE_SIGNAL, file=stack_file, all_threads=False)
        faulthandler.enable(file=stack_file, all_threads=False)  # also at a crash
        try:
            value = _work(number, payload, folder, steps, settings)
            _ignore_signals()
            reply: tuple[Any, ...] = ("done", value, _stop_was_requested(received))
        except BaseException as error:
            _ignore_signals()
            reply = _failure(error)
        sys.stdout.flush()
        sys.stderr.flush()
        _reply(replies, reply)
        if reply[0] == "done":
            time.sleep(LINGER_S)  # messages to other ranks may still be on their way; the parent ends a finished world
        os._exit(0)  # without the clean-up of libraries, which may wait for other ranks


def _ignore_signals() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _stop_was_requested(received: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        return not set(STOP_SIGNALS).isdisjoint(os.read(received, 65536))
    return False


def _end_with_parent(folder: Path) -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


def _work(number: int, payload: Any, folder: Path, steps: Any, settings: dict[str, Any]) -> Any:
    import torch
    import torch.distributed as dist

    from rankzero.learn.distributed.rank import join, share_steps

    torch.set_num_threads(1)
    share_steps(steps)
    store = dist.FileStore(str(folder / "store"), settings["ranks"])  # type: ignore[attr-defined]
    function, args = payload if settings["forked"] else pickle.loads(payload)
    chosen = {name: settings[name] for name in ("ranks", "debug", "collective_seconds")}
    join(settings["device"], store=store, rank=number, **chosen)
    return function(*args)


def _reply(replies: Connection, reply: tuple[Any, ...]) -> None:
    """Sends the reply to the parent process, or an error if the reply cannot be pickled."""
    import cloudpickle  # here, so that ranks of torchrun do without it

    try:
        data = cloudpickle.dumps(reply)
    except Exception as error:
        data = pickle.dumps(("raised", "", f"its value cannot be sent ({summary_of(error)})", "", False))
    with contextlib.suppress(BrokenPipeError):
        replies.send_bytes(data)


def _failure(error: BaseException) -> tuple[str, str, str, str, bool]:
    kind = next((name for name, known in KINDS.items() if isinstance(error, known)), type(error).__name__)
    if kind in KINDS:
        return "raised", kind, text_of(error), "", False
    return "raised", kind, summary_of(error), place_of(error), is_consequence(error)
