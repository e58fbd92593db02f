"""Style, imports and types: `make style` finds nothing, and in `make prove`, neither does `make lint`."""

import os
import subprocess

import pytest

from rankzero.curriculum import ROOT


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("target", ["style", pytest.param("lint", marks=pytest.mark.prove)])
def test_lint_finds_nothing(target: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
    done = subprocess.run(["make", target], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
