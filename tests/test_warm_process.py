"""Warm processes: commands of several threads at once."""

import functools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import warm_process


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
