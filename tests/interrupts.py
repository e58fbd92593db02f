"""Ctrl-C at a named stage of a command: the command says that it is there, waits, and gets the signal.

A stage is the import of a module, such as "torch.nn", or the call of a function, such as "torch.serialization:save",
in any process of the command; after "@", in a process with this word on its command line. A `sitecustomize.py` in the
command's Python gives the sign.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import warm_process

from rankzero.curriculum import ROOT

LIMIT_S = 300.0  # a hundred times what a quiet machine takes: the commands come to their stages in 0.2 to 3 s
HOOK = """
import os, sys, time
from importlib.machinery import PathFinder

stage, _, word = os.environ["TEST_STAGE"].partition("@")
module, _, function = stage.partition(":")
folder = os.environ["TEST_FOLDER"]

def sign():
    with open(os.path.join(folder, "sign"), "wb", buffering=0) as pipe:
        pipe.write(b"x")
    while not os.path.exists(os.path.join(folder, "sent")):
        time.sleep(0.01)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != module:
            return None
        sys.meta_path.remove(self)
        if not function:
            sign()
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def execute_and_replace(loaded):
            execute(loaded)
            original = getattr(loaded, function)
            def announced(*args, **kwargs):
                sign()
                return original(*args, **kwargs)
            setattr(loaded, function, announced)
        spec.loader.exec_module = execute_and_replace
        return spec

if word in " ".join(sys.orig_argv):
    sys.meta_path.insert(0, Finder())
"""


@dataclass(frozen=True)
class Ended:
    """The end of a command: its exit code and output."""

    code: int
    out: str
    errors: str


@contextmanager
def command(
    words: list[str], folder: Path, variables: Mapping[str, str] | None = None
) -> "Iterator[subprocess.Popen[str]]":
    """Starts `rankzero WORDS` in `folder`, in a new Python and a new process group; kills what is left of it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "code"), "PYTHONUNBUFFERED": "1"} | dict(variables or {})
    with warm_process.cold_starts():
        process = subprocess.Popen(
            [sys.executable, "-m", "rankzero", *words],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env=environment,
        )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def interrupt_at(stage: str, words: list[str], folder: Path) -> Ended:
    """Sends Ctrl-C to a command that has come to `stage`; returns how it ended."""
    hooks = folder / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(HOOK, encoding="utf-8")
    os.mkfifo(hooks / "sign")
    pipe = os.open(hooks / "sign", os.O_RDONLY | os.O_NONBLOCK)
    path = os.pathsep.join([str(hooks), str(ROOT / "code")])
    variables = {"PYTHONPATH": path, "TEST_STAGE": stage, "TEST_FOLDER": str(hooks)}
    try:
        with command(words, folder, variables) as process:
            end = time.monotonic() + LIMIT_S
            while not select.select([pipe], [], [], 0.1)[0]:
                assert process.poll() is None, f"ended before {stage}: {process.communicate()}"
                assert time.monotonic() < end, f"not at {stage} after {LIMIT_S:.0f} s"
            os.killpg(process.pid, signal.SIGINT)
            (hooks / "sent").touch()
            out, errors = process.communicate(timeout=LIMIT_S)
            return Ended(process.returncode, out, errors)
    finally:
        os.close(pipe)


def interrupt_after(line: str, words: list[str], folder: Path) -> Ended:
    """Sends Ctrl-C to a command that has printed a line that begins with `line`; returns how it ended."""
    with command(words, folder) as process:
        assert process.stdout
        printed = ""
        while not printed.rpartition("\n")[0].rpartition("\n")[2].startswith(line):
            text = process.stdout.readline()
            assert text, f"ended before {line!r}: {printed}{process.communicate()[1]}"
            printed += text
        os.killpg(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT_S)
        return Ended(process.returncode, printed + out, errors)
