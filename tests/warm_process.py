"""Warm processes for tests: a script runs in a fork of a process that has imported torch, instead of in a new Python.

The fork server is the one of `rankzero.learn.distributed.world`: it has imported what starters import and has run no
tensor operation, so a fork of it behaves as a new process that skips four seconds of imports.
"""

import multiprocessing
import os
import re
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NoReturn

TIME_LIMIT_S = 200.0


def _run(
    script: str,
    arguments: list[str],
    cwd: str,
    environment: dict[str, str],
    out: "Connection[bytes, bytes]",
    err: "Connection[bytes, bytes]",
) -> NoReturn:
    """Becomes `python script arguments` in `cwd`, with its output in the pipes `out` and `err`."""
    os.setsid()
    os.chdir(cwd)
    os.environ.update(environment)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    out.close()
    err.close()
    sys.stdout, sys.stderr = (os.fdopen(fd, "w", buffering=1, encoding="utf-8", closefd=False) for fd in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    code: object = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stopped:
        code = stopped.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def run_script(
    script: Path, *arguments: str, cwd: Path, until: str = "", environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs `script` as a process of its own in `cwd` and returns its exit code and output.

    `until`: a regular expression. After the first line of standard output that it matches, the script and all
    processes of its session are killed, and the output ends with that line. TimeoutError after TIME_LIMIT_S.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rankzero.learn.distributed.fork_server"])
    (out, out_end), (err, err_end) = context.Pipe(duplex=False), context.Pipe(duplex=False)
    process = context.Process(
        target=_run, args=(str(script), list(arguments), str(cwd), environment or {}, out_end, err_end)
    )
    process.start()
    assert process.pid is not None
    out_end.close()
    err_end.close()
    late = threading.Event()
    killer = threading.Timer(TIME_LIMIT_S, _kill_late, [process, late])
    killer.start()
    errors: list[str] = []
    drain = threading.Thread(target=lambda: errors.extend(_lines(err)), daemon=True)
    drain.start()
    try:
        output = ""
        for line in _lines(out):
            output += line
            if until and re.search(until, line):
                break
    finally:
        if until or sys.exc_info()[0]:
            _kill(process)
        process.join()
        killer.cancel()
        _kill(process)  # whatever the script has left behind in its session
    drain.join()
    if late.is_set():
        raise TimeoutError(f"{script} ran longer than {TIME_LIMIT_S:.0f} s; it printed:\n{output}")
    code = process.exitcode
    assert code is not None
    return subprocess.CompletedProcess([str(script), *arguments], code, output, "".join(errors))


def _lines(pipe: "Connection[bytes, bytes]") -> Iterator[str]:
    with os.fdopen(os.dup(pipe.fileno()), encoding="utf-8") as file:
        yield from file
    pipe.close()


def _kill_late(process: BaseProcess, late: threading.Event) -> None:
    late.set()
    _kill(process)


def _kill(process: BaseProcess) -> None:
    """Kills every process of the session that the script leads."""
    with suppress(ProcessLookupError):
        assert process.pid
        os.killpg(process.pid, signal.SIGKILL)
