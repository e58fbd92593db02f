"""Site build: Sphinx run on the repository, once or again whenever a file changes."""

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rankzero.curriculum import ROOT
from rankzero.errors import UserError
from rankzero.publish.site import npm_packages

SETTINGS = Path(__file__).parent


def build(out: Path) -> float:
    """Builds the site, replaces `out` by it, and returns the seconds that the build took. UserError for any warning.

    Sphinx warns of links without a target and of markup that it cannot show.
    """
    npm_packages.check()
    if out.exists() and any(out.iterdir()) and not (out / ".buildinfo").exists():
        raise UserError(f"{out} holds something that is not a site: name an empty folder with --out.")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-c", str(SETTINGS)]
        if subprocess.run([*command, "-d", f"{folder}/doctrees", str(ROOT), f"{folder}/site"]).returncode:
            raise UserError("the site was not built: each line above names a file and what is wrong with it.")
        shutil.rmtree(out, ignore_errors=True)
        shutil.move(f"{folder}/site", out)
    return time.perf_counter() - start


def serve(port: int) -> None:
    """Builds the site, opens it in a browser, and builds changed pages again until Ctrl-C.

    UserError, before the build, if another program has the port.
    """
    npm_packages.check()
    with socket.socket() as test:
        test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            test.bind(("127.0.0.1", port))
        except OSError as error:
            advice = f"end that program, or name another port: make serve ARGS='--port {port + 1}'"
            raise UserError(f"port {port} cannot be used ({error.strerror}): {advice}.") from None
    watched = [flag for name in ("static", "templates") for flag in ("--watch", str(SETTINGS / name))]
    ignored = [flag for name in (".venv", ".git", "runs", "work", "site") for flag in ("--ignore", f"{ROOT}/{name}/*")]
    command = [sys.executable, "-m", "sphinx_autobuild", "-c", str(SETTINGS), *watched, *ignored]
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        subprocess.run([*command, "--port", str(port), "--open-browser", str(ROOT), f"{folder}/site"])
