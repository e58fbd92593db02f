"""Sandbox server: the warm process inside bubblewrap, which opens and closes one sandbox per request of the grader.

The server imports torch once and never runs a line of a submission. For each request it forks a launcher, which
makes new namespaces (namespaces.py) and forks their first process, the supervisor. The supervisor receives the
submission and then requests through its own socket, and forks an untrusted process per request
(exercises/probes/supervisor.py). When the server kills the supervisor, the kernel ends every process of the sandbox.

`SandboxServer` in sandbox_client.py runs `python -m rankzero.grading.sandbox.sandbox_server CONTROL_FD PROBES [cold]`,
where PROBES are the paths of the labs' probes, none or several.
"""

import functools
import json
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from rankzero.exercises.probes.probe_server import import_modules_of, warm_up
from rankzero.exercises.probes.supervisor import run_supervised
from rankzero.grading.sandbox import namespaces
from rankzero.grading.sandbox.memory_meter import memory_excess

FILE = Path("/tmp/exercises.py")


def serve(control: socket.socket, probes: list[Path], *, warm: bool = True) -> None:
    """Opens a sandbox for each message that brings a socket, and closes it at the next message."""
    if warm:
        warm_up()
        for file in probes:
            import_modules_of(file)
    control.send(b"ready")
    while True:
        message, sockets, *_ = socket.recv_fds(control, 4096, 1)
        if not message:
            return
        settings = json.loads(message)
        (ready, ready_in), channel = os.pipe(), sockets[0]
        launcher = os.fork()
        if launcher == 0:
            os.close(ready)
            control.close()
            _launch(channel, ready_in, settings)
        os.close(ready_in)
        os.close(channel)
        with os.fdopen(ready) as reply:
            opened = json.loads(reply.read() or '{"trouble": "the sandbox could not be opened"}')
        control.send(json.dumps(opened).encode())
        client_is_alive = bool(control.recv(4096))  # returns when the client closes the sandbox, or has ended
        with suppress(ProcessLookupError):
            os.kill(opened.get("supervisor", launcher), signal.SIGKILL)
        os.waitpid(launcher, 0)
        if not client_is_alive:
            return
        control.send(b"closed")


def _launch(channel: int, ready: int, settings: dict[str, Any]) -> NoReturn:
    """Starts the supervisor in new namespaces and waits for it, from outside its process namespace."""
    try:
        namespaces.enter_namespaces()
        (failure, failure_in) = os.pipe()
        supervisor = os.fork()
        if supervisor == 0:
            os.close(failure)
            os.close(ready)
            _supervise(channel, failure_in, settings)
        os.close(failure_in)
        os.close(channel)
        with os.fdopen(failure) as stream:
            trouble = stream.read()
        os.write(ready, json.dumps({"trouble": trouble} if trouble else {"supervisor": supervisor}).encode())
        os.close(ready)
        os.waitpid(supervisor, 0)
    except Exception as error:
        os.write(ready, json.dumps({"trouble": f"the sandbox could not be opened: {error}"}).encode())
    finally:
        os._exit(0)


def _supervise(channel: int, failure: int, settings: dict[str, Any]) -> NoReturn:
    """Receives the submission as the sandbox's first process, then serves requests until it is killed."""
    try:
        namespaces.set_up_namespaces()
        submission = os.fdopen(namespaces.fixed_file(FILE), "wb")
        namespaces.drop_privileges()
        # Only the supervisor holds secrets. A hidden process cannot read its own /proc/self/io, as a probe does.
        os.register_at_fork(after_in_child=functools.partial(namespaces.set_hidden, hidden=False))
        os.close(failure)
        failure = -1
        os.chdir("/tmp")
        client = Connection(channel)
        with submission:
            submission.write(client.recv_bytes())
        excess = functools.partial(memory_excess, settings["memory"])
        while True:  # until the client closes its end: EOFError
            request = json.loads(client.recv_bytes())
            reply = run_supervised(request, (channel,), excess, namespace_init=True)
            client.send_bytes(json.dumps(reply).encode())
    except BaseException as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        if failure >= 0:
            os.write(failure, f"the sandbox could not be set up: {error} ({frame.name})".encode())
    finally:
        os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    files = [Path(argument) for argument in sys.argv[2:] if argument != "cold"]
    serve(socket.socket(fileno=int(sys.argv[1])), files, warm="cold" not in sys.argv)
