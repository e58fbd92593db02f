"""Runs that can be resumed: the folder has one writer, the log ends at the checkpoint, and the sampler continues."""

import json
import os
from pathlib import Path

import pytest
import torch

import rankzero.learn.runs.run_folder as run_folder
from rankzero.errors import UserError
from rankzero.learn.data.epoch_sampler import EpochSampler, windows_at
from rankzero.learn.resume.log_repair import keep_log_until


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
