"""The warm process inside bubblewrap, and the rooms that it forks: one for each submission, gone without a trace after.

The host imports torch once and never runs a line of a student's. For each submission it forks a guard, which makes new
namespaces (namespaces.py) and forks their first process, the warden. The warden gets the submission and then requests
through a socket of its own, and forks a process for each (exercises/probes/supervisor.py), which nobody trusts. When
the host kills the warden, the kernel ends everything in the room.

Run as `python -m rankzero.grading.sandbox.sandbox_server CONTROL_FD [cold]` by `Host` in sandbox.py.
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

from rankzero.exercises.probes.probe_server import warm_up
from rankzero.exercises.probes.supervisor import supervise
from rankzero.grading.sandbox import namespaces as isolate

MIB = 2**20
# What a process was born with it shares with the warden, unless it let go of that and took as much of its own, which
# cannot be told from here. A probe with eight ranks is believed.
SHARING = 12
FILE = Path("/tmp/exercises.py")


def host(control: socket.socket, *, warm: bool = True) -> None:
    """Opens a room for each message that brings a socket, and closes it at the next message."""
    if warm:
        warm_up()
    control.send(b"ready")
    while True:
        message, sockets, *_ = socket.recv_fds(control, 4096, 1)
        if not message:
            return
        settings = json.loads(message)
        (ready, ready_in), room = os.pipe(), sockets[0]
        guard = os.fork()
        if guard == 0:
            os.close(ready)
            control.close()
            _guard(room, ready_in, settings)
        os.close(ready_in)
        os.close(room)
        with os.fdopen(ready) as note:
            opened = json.loads(note.read() or '{"trouble": "the room could not be opened"}')
        control.send(json.dumps(opened).encode())
        going_on = bool(control.recv(4096))  # until whoever asked is done with the room, or gone
        with suppress(ProcessLookupError):
            os.kill(opened.get("warden", guard), signal.SIGKILL)
        _, _, usage = os.wait4(guard, 0)
        if not going_on:
            return
        control.send(json.dumps({"cpu": usage.ru_utime + usage.ru_stime}).encode())


def _guard(room: int, ready: int, settings: dict[str, Any]) -> NoReturn:
    """Stays outside the process namespace, to wait for its first process."""
    try:
        isolate.new_namespaces()
        (said, said_in) = os.pipe()
        warden = os.fork()
        if warden == 0:
            os.close(said)
            os.close(ready)
            _warden(room, said_in, settings)
        os.close(said_in)
        os.close(room)
        with os.fdopen(said) as note:
            trouble = note.read()
        os.write(ready, json.dumps({"trouble": trouble} if trouble else {"warden": warden}).encode())
        os.close(ready)
        os.waitpid(warden, 0)
    except Exception as error:
        os.write(ready, json.dumps({"trouble": f"the room could not be opened: {error}"}).encode())
    finally:
        os._exit(0)


def _warden(room: int, said: int, settings: dict[str, Any]) -> NoReturn:
    """The first process of the room: takes the submission, then requests, until it is killed."""
    try:
        isolate.furnish()
        isolate.lock()
        # Only the warden has something to hide. Whoever is hidden cannot read its own /proc/self/io, as a probe does.
        os.register_at_fork(after_in_child=functools.partial(isolate.hide, hidden=False))
        os.close(said)
        said = -1
        os.chdir("/tmp")
        client = Connection(room)
        FILE.write_bytes(client.recv_bytes())
        limit = settings["memory"]
        while True:  # until the client closes its end: EOFError
            request = json.loads(client.recv_bytes())
            reply = supervise(request, others=(room,), memory=lambda: _too_much(limit), alone=True)
            client.send_bytes(json.dumps(reply).encode())
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        if said >= 0:
            os.write(said, f"the room could not be furnished: {error} ({where.name})".encode())
    finally:
        os._exit(0)


def _too_much(limit: int) -> str:
    """What all processes of the room, its files and its sockets have taken on top of what was there before."""
    mine = _memory("1")
    every = sorted(
        (_memory(entry) for entry in os.listdir("/proc") if entry.isdecimal() and entry != "1"), reverse=True
    )
    taken = sum(every) - sum(min(one, mine) for one in every[:SHARING])
    taken += sum((disk.f_blocks - disk.f_bfree) * disk.f_frsize for disk in map(os.statvfs, ("/tmp", "/dev/shm")))
    taken += int(Path("/proc/net/sockstat").read_text().split()[2]) * isolate.SOCKET_BYTES
    return "" if taken <= limit else f"it took more than {limit // MIB} MiB of memory"


def _memory(process: str) -> int:
    """Bytes of memory that a process holds, without the libraries that all map; a process cannot write what is here."""
    try:
        status = Path(f"/proc/{process}/status").read_text(errors="replace")
        return (
            sum(int(status.partition(f"\n{kind}:")[2].split()[0]) for kind in ("RssAnon", "RssShmem", "VmPTE")) * 1024
        )
    except (OSError, IndexError, ValueError):  # it has just ended
        return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    host(socket.socket(fileno=int(sys.argv[1])), warm="cold" not in sys.argv)
