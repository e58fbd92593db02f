"""`make serve`: a port that another program has is named before the site is built."""

import socket
import subprocess

import pytest

from rankzero.errors import UserError
from rankzero.publish.site import build, npm_packages


def test_a_taken_port_is_named_before_the_site_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it builds"))
    monkeypatch.setattr(npm_packages, "check", lambda: None)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} cannot be used .*: make serve ARGS='--port {port + 1}'"):
            build.serve(port)
