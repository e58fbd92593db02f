"""Style, types and imports: `make lint` finds nothing. It runs beside the other tests, so it comes first."""

import os
import subprocess

import pytest

from rankzero.curriculum import ROOT


@pytest.mark.timeout(1500)
def test_lint_finds_nothing() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
    done = subprocess.run(["make", "lint"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
