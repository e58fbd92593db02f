"""Lab 00's part of the GPU session, rehearsed without a GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from rankzero.curriculum import ROOT, find_lab


@pytest.mark.skipif(find_lab("00").draft, reason="the session has a part for each finished lab")
def test_the_starter_that_measures_a_machine_keeps_its_output_and_rates_in_the_session(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rankzero", "gpu", "--rehearse", "--only", "lab 00", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "limits it" in (tmp_path / "lab-00-know-your-machine.txt").read_text()
    assert (tmp_path / "machine.json").exists()
