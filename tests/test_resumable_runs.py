"""Runs that can be resumed: the folder has one writer, the log ends at the checkpoint, and the sampler continues."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from starters import TINY

import rankzero.learn.runs.run_folder as run_folder
from rankzero.errors import UserError
from rankzero.learn.data.epoch_sampler import EpochSampler, windows_at
from rankzero.learn.distributed.sharded_checkpoint import finish_folder, newest_step_folder, partial_folder
from rankzero.learn.resume.log_repair import keep_log_until
from rankzero.learn.resume.resumable_run import open_run_folder, read_when_free


def test_a_folder_has_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "CLAIM_S", 0.0)
    monkeypatch.setattr(run_folder, "WAIT_S", 0.0)
    monkeypatch.setattr(run_folder, "_locks", [])
    run_folder.wait_for_folder(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run_folder.claim_folder(tmp_path / "run")
    for action in (run_folder.claim_folder, run_folder.wait_for_folder):
        with pytest.raises(UserError, match=rf"another run \(process {os.getpid()}\) uses {tmp_path}/run"):
            action(tmp_path / "run")
    run_folder._locks.clear()  # closes the file, as the end of the process does
    run_folder.wait_for_folder(tmp_path / "run")
    run_folder.claim_folder(tmp_path / "run")


def test_the_log_keeps_whole_lines_of_steps_that_were_saved(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    events = [{"event": "run"}, *({"event": "step", "step": step} for step in (1, 2, 3))]
    log.write_text("".join(json.dumps(event) + "\n" for event in events) + '{"event": "st')
    assert keep_log_until(log, 2) == 2
    assert [json.loads(line) for line in log.read_text().splitlines()] == events[:3]
    assert keep_log_until(tmp_path / "none.jsonl", 2) == 0


def test_every_window_is_drawn_once_per_epoch_in_another_order() -> None:
    sampler, other = EpochSampler(7, seed=3), EpochSampler(7, seed=3)
    drawn = torch.cat([sampler.next(4) for _ in range(7)])
    epochs = drawn.view(4, 7)
    assert all(sorted(epoch.tolist()) == list(range(7)) for epoch in epochs)
    assert len({tuple(epoch.tolist()) for epoch in epochs}) == 4
    other.next(11)
    third = EpochSampler(7, seed=3)
    third.load_state_dict(other.state_dict())
    assert third.next(12).tolist() == drawn[11:23].tolist()
    x, y = windows_at(torch.arange(20), torch.tensor([0, 2]), 5)
    assert x.tolist() == [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14]]
    assert torch.equal(y, x + 1)


def save(run: Path, step: int) -> None:
    """Makes a finished checkpoint without training."""
    partial = partial_folder(run, step)
    partial.mkdir(parents=True)
    (partial / "file").write_bytes(b"content")
    finish_folder(partial, keep=2, step=step, settings={}, corpus_sha256="")


def test_a_checkpoint_that_another_run_has_saved_meanwhile_is_noticed(tmp_path: Path) -> None:
    save(tmp_path, 8)
    saved = read_when_free(tmp_path, settings=())
    save(tmp_path, 12)
    with pytest.raises(UserError, match=r"has saved step-000012 in .* meanwhile: start this run again"):
        open_run_folder(argparse.Namespace(folder=tmp_path), "lab-09", saved)


def test_a_run_waits_for_another_and_resumes_from_the_newest_checkpoint_of_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it waits, the other run finishes step 12, and deletes the checkpoint that was the newest before."""
    monkeypatch.setattr(run_folder, "SILENT_S", 0.0)
    monkeypatch.setattr(run_folder, "_locks", [])
    save(tmp_path, 8)
    run_folder.claim_folder(tmp_path)

    def other_run_ends(seconds: float) -> None:
        save(tmp_path, 12)
        (tmp_path / "step-000008").rename(tmp_path / "deleted")
        run_folder._locks.clear()

    monkeypatch.setattr(run_folder, "time", SimpleNamespace(monotonic=time.monotonic, sleep=other_run_ends))
    saved = read_when_free(tmp_path, settings=())
    assert saved is not None
    assert saved["step"] == 12
    out = capsys.readouterr().out
    assert out == f"wait    another run (process {os.getpid()}) uses {tmp_path}: waiting for its end\n"
    open_run_folder(argparse.Namespace(folder=tmp_path), "lab-09", saved)
    assert run_folder._locks, "this process holds the folder from now on"
    run_folder._locks.clear()


@pytest.mark.prove
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not signal the end of a parent process")
def test_a_killed_command_ends_its_training_which_saves(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rankzero.cli", "run", "09", *TINY, "--steps", "100000", "--folder", "run"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("step     1/"):
            assert process.poll() is None
        descendants = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        out = process.stdout.read()  # up to the end of the last process that prints
    stopped = re.search(r"Stopped by SIGTERM after step (\d+), which is saved", out)
    assert stopped, out
    newest = newest_step_folder(tmp_path / "run")
    assert newest is not None
    assert newest.name == f"step-{int(stopped[1]):06d}"
    assert not psutil.wait_procs(descendants, timeout=10)[1]
