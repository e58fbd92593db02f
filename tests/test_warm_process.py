"""Warm processes: commands of several threads at once."""

import functools
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import warm_process

FORK_SERVER = """
import os
from multiprocessing import forkserver
forkserver.ensure_running()
server = forkserver._forkserver._forkserver_pid
with open(f"/proc/{server}/cmdline", "rb") as own, open("/proc/self/cmdline", "rb") as parent:
    print(own.read() == parent.read())
"""


@pytest.mark.prove
def test_the_fork_server_of_a_warm_command_is_a_fork_of_it() -> None:
    command = [sys.executable, "-c", FORK_SERVER]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}  # torch starts threads for more
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=one_thread)
    assert done.stdout == "True\n", "a new Python would import torch once more, for each command with ranks"


@pytest.mark.prove
def test_two_threads_share_one_warm_server(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = []

    class NewServer(warm_process._WarmServer):
        def __init__(self) -> None:
            servers.append(self)
            super().__init__()

    def output_of(number: int) -> str:
        command = [sys.executable, "-c", f"print({number})"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    monkeypatch.setattr(warm_process, "_server", functools.cache(NewServer))
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(output_of, range(8))) == [f"{number}\n" for number in range(8)]
    assert len(servers) == 1


@pytest.mark.prove
def test_a_server_started_while_signals_are_blocked_gives_them_to_its_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_process, "_server", functools.cache(warm_process._WarmServer))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])  # as resource_tracker does
    try:
        command = [sys.executable, "-c", "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert done.stdout == "set()\n"
