"""Probe server: runs probes beside a learner's code, in forks that may hang, crash or lie without harm.

One server process imports torch once. For each request it forks a child (probe_process.py), which loads the learner's
file again and runs the probes of the request, and supervises it (supervisor.py). Nothing that a learner's file does to
its process outlives the request, and the next one starts in milliseconds. What a lab's probes import, such as torch's
compiler, is imported at the first request of the lab. The server itself runs no tensor operation: a fork is safe only
while torch has not started its threads.

Run as `python -u -m rankzero.exercises.probes.probe_server CONNECTION_FD WORKING_FOLDER` by LocalProbeClient (checks/).
"""

import ast
import gc
import importlib
import json
import os
import shutil
import signal
import sys
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from rankzero.exercises.probes import probe_process
from rankzero.exercises.probes.loader import compiled
from rankzero.exercises.probes.supervisor import run_supervised
from rankzero.exercises.probes.tamper_check import TamperCheck
from rankzero.learn.machine.lazy_dynamo import import_dynamo_lazily

_IMPORTED: set[Path] = set()  # the probes whose modules are imported


def warm_up() -> None:
    """Imports the modules of probes and learners' files once, so that no child imports them again."""
    import torch

    import_dynamo_lazily()
    for name in ("models.gpt", "profiling.memory", "distributed.collectives", "distributed.rank", "distributed.world"):
        importlib.import_module(f"rankzero.learn.{name}")
    importlib.import_module("torch._dynamo")  # the stand-in
    for name in ("forward_recorder", "left_behind", "untrusted_values"):
        importlib.import_module(f"rankzero.exercises.probes.{name}")
    importlib.import_module("rankzero.exercises.probes.rank_probes").block_backend_calls()
    for optimizer in torch.optim.Optimizer.__subclasses__():  # the first object of an optimizer class changes the class
        optimizer._patch_step_function(object.__new__(optimizer))
    torch.set_num_threads(1)
    warnings.formatwarning = _first_sentence
    probe_process.TAMPER_CHECK = TamperCheck()
    gc.freeze()  # a collection in a child would go through all modules, and copy their pages


def _first_sentence(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Returns a warning as the learner reads it below a check, without files of torch and of the probes."""
    sentence = (str(message).strip().splitlines() or [""])[0].split(". ")[0]
    return f"{category.__name__}: {sentence}\n"


def import_modules_of(probes: Path) -> None:
    """Imports the modules that a lab's probes import at their top, which takes seconds for torch's compiler.

    The probes themselves are not run, nor modules of this library: each child runs them, and may change torch by it.
    """
    if probes in _IMPORTED:
        return
    _IMPORTED.add(probes)
    with suppress(OSError, SyntaxError, ValueError, ImportError):  # the child that loads the probes reports the error
        source = probes.read_bytes()
        compiled(source, str(probes))
        for node in ast.parse(source).body:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                if name and not name.startswith("rankzero"):
                    importlib.import_module(name)
    if compiler := sys.modules.get("torch._dynamo.mutation_guard"):
        # The first compilation changes nn.Module and torch.optim: here, so that the tamper check finds no change later.
        compiler.install_generation_tagging_init()
        sys.modules["torch._dynamo.eval_frame"].TorchPatcher.patch()
        probe_process.TAMPER_CHECK = TamperCheck()
    gc.freeze()


def serve(client: Connection) -> None:
    """Replies to requests until the client closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client handles Ctrl-C, and ends this process
    warm_up()
    with suppress(EOFError, ConnectionError):  # the client is gone
        client.send_bytes(b"ready")
        while True:
            request = json.loads(client.recv_bytes())
            import_modules_of(Path(request["probes_file"]))
            reply = run_supervised(request, close_fds=(client.fileno(),), client=client.fileno())
            client.send_bytes(json.dumps(reply).encode())


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    serve(Connection(int(sys.argv[1])))
    shutil.rmtree(sys.argv[2], ignore_errors=True)  # after a client that could not, such as a killed one
