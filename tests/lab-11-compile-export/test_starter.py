"""Starter of Lab 11: counts, equal losses, a refused length, and mistakes answered in one sentence."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from starters import TINY, Starter, losses

from rankzero.learn.profiling.step_times import plot_step_times

LAB11 = Starter("11")
starter, fails = LAB11.module, LAB11.fails
QUICK = (*TINY, "--device", "cpu", "--backend", "aot_eager", "--steps", "4")
needs_compiler = pytest.mark.skipif(
    not shutil.which(os.environ.get("CXX", "g++")), reason="Inductor needs a C++ compiler, and there is none"
)


def printed(tmp_path: Path, capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Runs the starter, which must succeed; returns what it prints."""
    assert starter.main([*QUICK, *arguments, "--out", str(tmp_path)]) == 0
    return capfd.readouterr().out


# ------------------------------------------------------------------------------------------------------------- the run
def test_a_run_counts_trains_and_exports(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(tmp_path, capfd, "--dynamic", "auto")
    assert "--dynamic auto  [1, 1, 0, 0, 0, 0]" in out
    assert "--dynamic no    [1, 1, 1, 1, 1, 1]" in out
    assert "--dynamic yes   [1, 0, 0, 0, 0, 0]" in out
    assert "losses        differ by at most 0.0e+00 nats" in out
    assert "T = 17        refused: " in out
    (folder,) = tmp_path.glob("lab-11-*")
    assert [step for step, _ in losses(folder)] == [1, 2, 3, 4]
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert sum(event.get("compilations", 0) for event in events) == 2
    assert (folder / "steps.png").stat().st_size > 5000
    assert (folder / "model.pt2").stat().st_size > 5000


def test_padding_to_a_multiple_leaves_few_lengths_to_compile(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printed(tmp_path, capfd, "--dynamic", "no", "--pad-to", "16")
    (folder,) = tmp_path.glob("lab-11-*")
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()][1:]
    assert {event["length"] for event in events} == {16}
    assert [event["compilations"] for event in events] == [1, 0, 0, 0]


def test_a_stop_finishes_the_step_and_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "lab-11-001" / "log.jsonl"

    def stop_after_the_first_step() -> None:
        while not (log.exists() and '"step"' in log.read_text()):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=stop_after_the_first_step, daemon=True)
    thread.start()
    code = starter.main([*QUICK, "--steps", "100000", "--out", str(tmp_path)])
    thread.join(timeout=60)
    assert code == 130
    assert "Stopped by Ctrl-C after step" in capfd.readouterr().out


# ------------------------------------------------------------------------------------------------------- with Inductor
@pytest.mark.prove
@needs_compiler
def test_a_package_runs_in_python_and_in_cpp(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = printed(tmp_path, capfd, "--backend", "inductor", "--package")
    assert "package       " in out
    (folder,) = tmp_path.glob("lab-11-*")
    script = LAB11.lab.folder / "build_serve.py"
    done = subprocess.run([sys.executable, str(script), str(folder / "package.pt2")], capture_output=True, text=True, timeout=1200, check=False)  # fmt: skip  # noqa: E501
    assert done.returncode == 0, done.stderr
    assert "scores of shape [1, 8, 96], sum " in done.stdout


# ------------------------------------------------------------------------------------------------------------ mistakes
def test_without_a_compiler_one_sentence_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    said = fails([*TINY, "--device", "cpu"], capsys)
    assert "needs a C++ compiler, and no-such-compiler is not found" in said
    assert "--backend aot_eager" in said


def test_a_bad_option_ends_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--steps: '0'" in fails(["--steps", "0"], capsys)
    assert "--block-size 4 leaves no choice of lengths" in fails([*QUICK, "--block-size", "4"], capsys)


def test_the_plot_has_both_runs() -> None:
    figure = plot_step_times({"eager": [0.1, 0.1], "compiled": [2.0, 0.05]})
    assert [line.get_label() for line in figure.axes[1].lines] == ["eager", "compiled"]
