"""MLflow's page in Chromium: a tracked run, its metrics and its artifacts, as a learner sees them."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import free_port
from playwright.sync_api import Browser
from starters import Starter

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")


def answers(address: str) -> bool:
    """Tells whether a server answers at this address."""
    try:
        with urllib.request.urlopen(address, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run of Lab 02 that was tracked."""
    folder = tmp_path_factory.mktemp("tracked")
    return Starter("02").train(folder, "--device", "cpu", "--track", "mlflow", "--steps", "6", "--eval-every", "3")


@pytest.fixture(scope="module")
def address(tracked: Path) -> Iterator[str]:
    """The address of MLflow's server for the store of the run."""
    port = free_port()
    store = f"sqlite:///{tracked.parent / 'mlflow.db'}"
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "ui",
        "--backend-store-uri",
        store,
        "--port",
        str(port),
        "--workers",
        "1",
    ]
    log = tracked / "server.txt"
    with log.open("w") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        home = f"http://127.0.0.1:{port}"
        while not answers(f"{home}/health"):
            assert server.poll() is None, log.read_text()
            time.sleep(0.2)
        yield home
    finally:
        os.killpg(server.pid, 15)
        server.wait(timeout=30)


@pytest.mark.prove
def test_a_tracked_run_is_on_mlflows_page(browser: Browser, tracked: Path, address: str) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(240_000)
    # Only this machine: MLflow's page asks for nothing that the run needs from elsewhere.
    context.route("**/*", lambda route: route.continue_() if "127.0.0.1" in route.request.url else route.abort())
    page = context.new_page()
    page.goto(f"{address}/#/experiments/1/runs")
    page.get_by_text(tracked.name, exact=True).first.click()
    page.get_by_text("val_loss").first.wait_for()
    page.get_by_text("hidden_dim").first.wait_for()
    page.get_by_role("tab", name="Artifacts").first.click()
    page.get_by_text(tracked.name, exact=True).last.wait_for()
    context.close()
