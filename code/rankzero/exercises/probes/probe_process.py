"""Probe process: loads the learner's file, runs the probes of one request, and writes one line per reply."""

import os
import resource
import signal
import sys
import tempfile
from bdb import BdbQuit
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from json import dumps  # bound before a learner's file can change the module's function
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NoReturn

from rankzero.exercises.probes.loader import (
    LoadError,
    binding_line,
    cause_text,
    error_text,
    load,
    loop_around,
    numbered_lines,
    source_line,
)
from rankzero.exercises.probes.tamper_check import TamperCheck, tamper_text

MEMORY_BYTES = 4 * 2**30  # that a probe may allocate beyond the memory inherited from the server
FILE_BYTES = 256 * 2**20
MISSING = "missing"  # cause of the reply for a function that is not in the file
READY = "ready"  # status of the first line, sent before the learner's file is loaded
TAMPER_CHECK: TamperCheck | None = None  # made by the probe server before it forks: making it takes longer than a probe


def run_probes(request: dict[str, Any], token: str, result: int, printed: int, folder: str) -> NoReturn:
    """Runs the probes, writes replies, and ends without the interpreter's clean-up, which a learner can hook.

    Each probe begins in an empty working folder inside `folder`.
    """
    probe_pid = os.getpid()

    def send(reply: dict[str, Any]) -> None:
        if os.getpid() != probe_pid:  # a fork that the learner's code made
            os._exit(0)
        line = memoryview(token.encode() + dumps(reply).encode() + b"\n")
        while line:
            line = line[os.write(result, line) :]

    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # until there is a line of the learner's file to report
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.breakpointhook = _no_debugger
        _limit(request["seconds"] * len(request["probes"]))
        _answer(request, send, folder)
    finally:
        os._exit(0)


def new_folder(parent: str = ".") -> str:
    """Returns the path of a new folder in `parent`, or `parent` where none can be made: its disk may be full."""
    try:
        return tempfile.mkdtemp(dir=os.path.abspath(parent))
    except OSError:
        return parent


def _no_debugger(*_: object, **__: object) -> NoReturn:
    raise BdbQuit


def _heed_alarm(request: dict[str, Any], file: Path, send: Callable[..., None], loading: bool = False) -> None:
    """At the supervisor's signal, after the request's seconds, replies with the running line of `file`, and ends."""

    def on_alarm(_: int, frame: FrameType | None) -> None:
        lines = _lines_of(file, frame)
        loop = next((loop for line in lines if (loop := loop_around(file, line))), 0)
        place = f"; {file.name}, line {lines[0]} was running" if lines else ""
        place += f", in the loop that begins in line {loop}" if loop else ""
        advice = ". Move slow code below `if __name__ == '__main__':`." if loading else ""
        text = f"{'not loaded' if loading else 'no answer'} after {request['seconds']:g} s{place}{advice}"
        text += numbered_lines(file, [*lines[:1], *[loop] * (loop > 0)])
        send({"status": "timeout", "text": text, "cause": "no answer", "loading": loading})
        os._exit(0)

    signal.signal(signal.SIGALRM, on_alarm)


def _lines_of(file: Path, frame: FrameType | None) -> list[int]:
    """Returns the lines of `file` in the frame and in its callers, from the innermost."""
    lines = []
    while frame:
        lines += [frame.f_lineno] if frame.f_code.co_filename == str(file) else []
        frame = frame.f_back
    return lines


def _limit(seconds: float) -> None:
    if sys.platform == "linux":
        limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 2, int(seconds) + 3))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(request: dict[str, Any], send: Callable[[dict[str, Any]], None], folder: str) -> None:
    from rankzero.exercises.probes import argument_notes, rank_probes

    file, loaded_seed = Path(request["file"]), None
    try:
        probes = load(Path(request["probes_file"]))
    except LoadError as error:  # an error in the lab's file, not in the learner's file
        send({"status": "broken", "text": str(error)})
        return
    rank_probes.LEARNER = (file, tuple(request["functions"]))
    tamper_check = TAMPER_CHECK or TamperCheck()
    tamper_check.renew()
    tamper_check.add("the probes", probes)
    if not request.get("trusted"):
        rank_probes.TAMPER_CHECK = tamper_check
        tamper_check.watch_value("the probes", rank_probes, "TAMPER_CHECK")
    unchanged, text = tamper_check.comparison(), tamper_text
    send({"status": READY})
    for name, seed, *handed in request["probes"]:
        os.chdir(new_folder(folder))
        if seed != loaded_seed:
            _heed_alarm(request, file, send, loading=True)
            try:
                learner = load(file)
                if not unchanged():
                    raise LoadError(text(file.name, tamper_check.changed()))
            except LoadError as error:
                send({"status": "error", "text": str(error), "loading": True})
                return
            refusals = (_refusal(learner, function, file) for function in request["functions"])
            refused = next((refusal for refusal in refusals if refusal), None)
            watched = request["functions"] or request["others"]
            argument_notes.watch_arguments(learner, watched, generators=not request.get("graded"))
            loaded_seed = seed
        _heed_alarm(request, file, send)
        if refused:
            send(refused)
            continue
        argument_notes.NOTES.clear()
        reply = _probe(getattr(probes, name), (learner, seed, *map(_decoded, handed)), file, request)
        reply["notes"] = "\n".join(sorted(argument_notes.NOTES))
        if not (intact := unchanged()):
            reply = {"status": "error", "text": text(file.name, tamper_check.changed())}
        send(reply)
        if not intact or reply["status"] == "timeout":
            return  # the change would persist; ranks that hang would hang in the next probe too


def _refusal(learner: ModuleType, name: str, file: Path) -> dict[str, Any] | None:
    """Returns the reply instead of any probe's if `name` is no function whose call runs it, otherwise None."""
    function = getattr(learner, name, None)
    code = getattr(function, "__code__", None)
    flags = code.co_flags if type(code) is CodeType else 0
    if flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        problem = "is an `async def`, of which a call runs nothing: define it with `def`"
    elif flags & CO_GENERATOR:
        problem = "has a `yield`, so a call runs nothing and returns a generator: return the value, or decorate it"
    elif callable(function):
        return None
    elif name in vars(learner):
        problem = f"is of type {type(function).__name__}: define it as a function again"
    else:
        text = f"{name} is missing from {file.name}: put its `def` line back."
        return {"status": "todo", "text": text, "cause": MISSING}
    line = binding_line(file, name)
    return {"status": "error", "text": f"{file.name}, line {line}: {name} {problem}.{source_line(file, line)}"}


def _decoded(handed: str) -> dict[str, Any]:
    from rankzero.exercises.probes.answers import decode

    return decode(handed.encode())


def _probe(probe: Any, arguments: tuple[Any, ...], file: Path, request: dict[str, Any]) -> dict[str, Any]:
    import torch

    from rankzero.errors import out_of_memory
    from rankzero.exercises.probes.answers import encode
    from rankzero.exercises.probes.rank_probes import failure_text
    from rankzero.learn.distributed.world import WorldError, WorldTimeoutError

    torch.set_grad_enabled(True)  # an earlier probe may have disabled it
    torch.set_num_threads(1)
    try:
        return {"status": "answered", "answers": encode(probe(*arguments)).decode()}
    except NotImplementedError as error:
        return {"status": "todo", "text": str(error)}
    except WorldError as error:  # ranks that failed; see rank_probes.py
        status = "timeout" if isinstance(error, WorldTimeoutError) else "error"
        return {"status": status, "text": failure_text(str(error), file), "cause": error.cause}
    except BaseException as error:
        status = "oom" if out_of_memory(error) else "error"
        text = error_text(error, file, request["functions"], request["others"])
        return {"status": status, "text": text, "cause": cause_text(error)}
