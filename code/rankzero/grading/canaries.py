"""Canaries: things of this machine that no attack may reach."""

import os
import secrets
import socket
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self


class Canaries(ExitStack):
    """A service of this machine, a file of the instructor and an environment variable. Use it as a context."""

    def __enter__(self) -> Self:
        self._mark = f"rankzero-canary-{secrets.token_hex(8)}"
        self._tcp = self.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._unix = self.enter_context(socket.socket(socket.AF_UNIX))
        self._unix.bind(f"\0{self._mark}")
        self._unix.listen()
        folder = self.enter_context(tempfile.TemporaryDirectory(prefix=".rankzero-", dir=Path.home()))
        self._secret = Path(folder) / "secret"
        self._secret.write_text(self._mark)
        os.environ["RANKZERO_CANARY"] = self._mark
        self.callback(os.environ.pop, "RANKZERO_CANARY", None)
        return self

    @property
    def places(self) -> dict[str, object]:
        """Returns variables for an attack: the port, the secret file's path and the mark in it."""
        return {"PORT": self._tcp.getsockname()[1], "SECRET": str(self._secret), "MARK": self._mark}

    def touched(self) -> list[str]:
        """Returns the canaries that were reached since the last call, or changed."""
        reached = []
        for name, server in (("the TCP port", self._tcp), ("the abstract socket", self._unix)):
            server.setblocking(False)
            with suppress(BlockingIOError):
                server.accept()[0].close()
                reached.append(name)
        unchanged = self._secret.is_file() and self._secret.read_text() == self._mark
        unchanged = unchanged and len(os.listdir(self._secret.parent)) == 1
        return reached if unchanged else [*reached, "the secret file"]
