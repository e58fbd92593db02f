"""Ctrl-C and SIGTERM: processes that get a real signal finish their step, save, and resume with the same losses."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from agents import TORCHRUN
from starters import TINY, Starter, losses
from warm_process import cold_starts

from rankzero.learn.runs.stop_request import StopRequest, Terminated, finish_step_on_interrupt, signals_raise


@pytest.fixture
def sigterm_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


# ------------------------------------------------------------------------------------------------------- in one process
def test_the_first_ctrl_c_sets_a_flag_and_the_second_stops_the_run(
    monkeypatch: pytest.MonkeyPatch, sigterm_handler: None
) -> None:
    before = signal.getsignal(signal.SIGINT)
    with finish_step_on_interrupt() as interrupted:
        assert not interrupted
        send(signal.SIGINT)
        assert interrupted
        send(signal.SIGINT)  # the same request, received twice: from Slurm and from torchrun
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 2)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert (interrupted.name, interrupted.exit_code) == ("Ctrl-C", 130)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_first_signal_says_at_once_on_a_terminal_what_is_still_to_come(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], sigterm_handler: None
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    said = "\nStopping after this step. Ctrl-C again stops at once.\n" if terminal else ""
    with finish_step_on_interrupt("Stopping after this step"):
        send(signal.SIGINT)
        assert capfd.readouterr().err == said
        send(signal.SIGINT)
        assert capfd.readouterr().err == ""


def test_every_later_sigterm_is_the_same_request(monkeypatch: pytest.MonkeyPatch, sigterm_handler: None) -> None:
    with finish_step_on_interrupt() as interrupted:
        send(signal.SIGTERM)
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 2)
        send(signal.SIGTERM)
    send(signal.SIGTERM)  # while the run draws its curves and prints where they are
    assert (interrupted.name, interrupted.exit_code) == ("SIGTERM", 143)


def test_without_a_request_the_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with finish_step_on_interrupt() as interrupted:
        pass
    assert signal.getsignal(signal.SIGTERM) is before
    assert interrupted == StopRequest()


def test_outside_the_loop_sigterm_raises_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), signals_raise():
        send(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


# ------------------------------------------------------------------------------------------------------- real starters
STARTERS = {number: Starter(number) for number in ("02", "03", "04", "05", "07", "08")}
LIMIT_S = 300.0  # a quiet machine takes at most 20 s
LONG = ("--steps", "1000000", "--eval-every", "1000000")


def start(number: str, cwd: Path, *launcher: str) -> "subprocess.Popen[str]":
    """Starts a long run of a lab's starter, and returns when its first step is done."""
    command = [sys.executable, *launcher, str(STARTERS[number].lab.starter), *TINY, *LONG]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with cold_starts():
        process = subprocess.Popen(
            command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
    assert process.stdout
    while not (line := process.stdout.readline()).startswith("step     1/"):
        assert line, process.communicate(timeout=LIMIT_S)
    return process


def check_the_stop_and_the_resume(number: str, cwd: Path, out: str, signal_name: str) -> None:
    """The run says in one line where it stopped; resumed, it has the losses of a run that nothing stopped."""
    (step,) = re.findall(
        rf"^Stopped by {signal_name} after step (\d+), which is saved\. Go on with$", out, re.MULTILINE
    )
    starter, steps = STARTERS[number], int(step) + 3
    for arguments in (["--resume"], []):
        done = starter.run(*TINY, *arguments, "--steps", str(steps), "--eval-every", "1000000", cwd=cwd)
        assert done.returncode == 0, done.stderr
    stopped, resumed, whole = (losses(cwd / "runs" / f"lab-{number}-00{run}") for run in (1, 2, 3))
    assert len(stopped) == int(step)
    assert stopped + resumed == whole


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "number", ["02", *(pytest.param(number, marks=pytest.mark.prove) for number in ("03", "04", "05"))]
)
def test_sigterm_finishes_the_step_saves_and_a_resumed_run_has_the_same_losses(number: str, tmp_path: Path) -> None:
    process = start(number, tmp_path)
    process.terminate()
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (143, "")
    check_the_stop_and_the_resume(number, tmp_path, out, "SIGTERM")


def ranks_of(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Returns the two rank processes: torchrun's children, or those of the fork server that a starter has started."""
    family = psutil.Process(process.pid).children(recursive=True)
    ranks = [child for child in family if child.ppid() != process.pid] or family
    assert len(ranks) == 2
    return ranks


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("number", "target"),
    [
        ("07", "the parent"),
        pytest.param("07", "one rank", marks=pytest.mark.prove),
        pytest.param("07", "every process", marks=pytest.mark.prove),
        pytest.param("08", "the parent", marks=pytest.mark.prove),
        pytest.param("08", "one rank", marks=pytest.mark.prove),
    ],
)
def test_sigterm_stops_both_ranks_after_the_same_step(number: str, target: str, tmp_path: Path) -> None:
    process = start(number, tmp_path)
    family = psutil.Process(process.pid).children(recursive=True)
    if target == "one rank":
        ranks_of(process)[1].terminate()
    else:
        process.terminate()
        for child in family if target == "every process" else []:  # as Slurm does
            child.terminate()
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (143, "")
    check_the_stop_and_the_resume(number, tmp_path, out, "SIGTERM")
    _, alive = psutil.wait_procs(family, timeout=LIMIT_S)
    assert not alive


@pytest.mark.prove
def test_sigterm_before_the_first_step_ends_parent_and_ranks(tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(STARTERS["07"].lab.starter), *TINY, *LONG]
    with cold_starts():
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline().startswith("device"), "the ranks are up, and train has begun"
    family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143
    assert "Stopped by SIGTERM" in out + err
    assert "Traceback" not in err
    _, alive = psutil.wait_procs(family, timeout=LIMIT_S)
    assert not alive


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.prove
@pytest.mark.parametrize("target", ["the agent", "one rank"])
@pytest.mark.parametrize("number", ["07", "08"])
def test_sigterm_to_torchrun_or_to_one_of_its_ranks_saves_on_all(number: str, target: str, tmp_path: Path) -> None:
    process = start(number, tmp_path, *TORCHRUN[1:], "--nproc-per-node=2")
    family = psutil.Process(process.pid).children(recursive=True)
    (process if target == "the agent" else ranks_of(process)[1]).terminate()
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, "torchrun's own exit code"
    check_the_stop_and_the_resume(number, tmp_path, out, "SIGTERM")
    _, alive = psutil.wait_procs(family, timeout=LIMIT_S)
    assert not alive
