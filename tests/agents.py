"""torchrun's agents as processes of this machine, one per node, and the reports that their ranks write."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
PATIENCE = 250.0  # seconds after which a test gives up; no test measures a time

_PORTS = iter(range(10_000 + 97 * (os.getpid() % 200), 65_536))  # each is tried once, another process tries others

# A rank without torch: writes a report of its variables, and fails or waits as its arguments say.
REPORT = """
import json, os, pathlib, signal, sys, time
folder, how = pathlib.Path(sys.argv[1]), sys.argv[2:]
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RESTART_COUNT",
         "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "TORCHELASTIC_RUN_ID"]
me = {name: os.environ.get(name) for name in names} | {"pid": os.getpid(), "agent": os.getppid(), "argv": how}
def note(kind):
    file = folder / f"{kind}-{me['RANK']}-{os.getpid()}"
    file.with_suffix(".partial").write_text(json.dumps(me))
    file.with_suffix(".partial").rename(file.with_suffix(".json"))
def received(number, frame):
    note(signal.Signals(number).name)
    sys.exit(0)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, received)
if "fail-once" in how and me["RANK"] == "1" and not list(folder.glob("started-1-*")):
    note("started")
    while len(list(folder.glob("started-*.json"))) < 2: time.sleep(0.02)
    sys.exit(3)
note("started")
while "wait" in how or ("until-retried" in how and len(list(folder.glob("started-1-*.json"))) < 2):
    time.sleep(0.02)
"""

# A rank that calls collectives forever.
COLLECTIVES = """
import os, pathlib, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
file = pathlib.Path(sys.argv[1], f"started-{dist.get_rank()}-{os.getpid()}")
file.with_suffix(".partial").write_text(
    '{"RANK": "%d", "pid": %d, "agent": %d}' % (dist.get_rank(), os.getpid(), os.getppid()))
file.with_suffix(".partial").rename(file.with_suffix(".json"))
while True:
    dist.all_reduce(torch.ones(1))
"""


def free_port() -> int:
    """Returns a port on which no process listens now, and which the kernel gives to none that asks for any port."""
    given_away = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in _PORTS:
        if port < given_away:
            with socket.socket() as listener, suppress(OSError):
                listener.bind(("localhost", port))
                return port
    raise AssertionError("every port is in use")


def eventually(condition: Callable[[], Any], description: str, seconds: float = PATIENCE) -> Any:
    """Calls `condition` until its result is true, and returns that result. AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.02)
    raise AssertionError(f"{description}: not within {seconds:.0f} seconds")


class Cluster:
    """Nodes that are processes of this machine, and a folder that all of them share."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.mark = folder, free_port(), uuid.uuid4().hex
        self.script = folder / "script.py"
        self.script.write_text(REPORT)
        self._nodes: list[subprocess.Popen[str]] = []

    def agent(self, *options: str, nnodes: str = "2", ranks: int = 1, rdzv_id: str = "job") -> "subprocess.Popen[str]":
        """Starts one node's agent. Options with `--` go to torchrun, other options to the script."""
        torchrun_options = [option for option in options if option.startswith("--")]
        if not any(option.startswith("--rdzv-endpoint") for option in torchrun_options):
            torchrun_options.insert(0, f"--rdzv-endpoint=localhost:{self.port}")
        return self.run([
            *TORCHRUN, f"--nnodes={nnodes}", f"--nproc-per-node={ranks}", "--rdzv-backend=c10d", f"--rdzv-id={rdzv_id}",
            *torchrun_options, str(self.script), str(self.folder),
            *(option for option in options if not option.startswith("--")),
        ])  # fmt: skip

    def run(self, command: Sequence[str], cwd: Path | None = None, **environment: str) -> "subprocess.Popen[str]":
        """Starts a command in its own session, with stdout and stderr in one pipe."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
        node = subprocess.Popen(
            command, cwd=cwd, env=variables | {"RANKZERO_TEST": self.mark} | environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._nodes.append(node)
        return node

    def reports(self, kind: str = "started") -> list[dict[str, Any]]:
        """Returns the ranks' reports of this kind, sorted by rank."""
        reports = [json.loads(file.read_text()) for file in self.folder.glob(f"{kind}-*.json")]
        return sorted(reports, key=lambda report: (int(report["RANK"]), report["pid"]))

    def wait_for(self, count: int, kind: str = "started") -> list[dict[str, Any]]:
        """Waits for `count` reports of this kind and returns them."""
        return list(eventually(lambda: len(self.reports(kind)) >= count and self.reports(kind), f"{count} {kind}"))

    def processes(self) -> list[psutil.Process]:
        """Returns every running process that any node started."""
        return list(self._processes())

    def _processes(self) -> Iterator[psutil.Process]:
        nodes = {node.pid for node in self._nodes}  # a fork of the warm server has the server's environment in /proc
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_started_here = process.pid in nodes or process.environ().get("RANKZERO_TEST") == self.mark
                if is_started_here and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def close(self) -> None:
        """Kills every process that still runs."""
        for process in self.processes():
            with suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        for node in self._nodes:
            node.communicate()


def wait_for_end(node: "subprocess.Popen[str]", seconds: float = PATIENCE) -> tuple[int, str]:
    """Waits for the end of a node and returns its exit code and output."""
    output, _ = node.communicate(timeout=seconds)
    return node.returncode, output
