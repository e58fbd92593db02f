"""Starter of Lab 09: kills, full disks, damaged files and signals cost steps, never a finished checkpoint."""

import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch.distributed as dist
from starters import TINY, Starter, losses

from rankzero.learn.distributed.sharded_checkpoint import finished_folders, read_folder

LAB09 = Starter("09")
starter, train, fails = LAB09.module, LAB09.train, LAB09.fails
SETTINGS = starter.LAB_SETTINGS
RIGHT_DCP = starter.dcp


def go_on(folder: Path, *arguments: str) -> list[tuple[int, float]]:
    """Starts a tiny run in `folder`, or resumes it; returns the losses of all steps."""
    assert starter.main([*TINY, *arguments, "--folder", str(folder)]) == 0
    return losses(folder)


def steps(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in finished_folders(folder)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of 12 steps on two ranks, with checkpoints of steps 4, 8 and 12."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    go_on(folder, "--steps", "12", "--eval-every", "4", "--keep", "3")
    return folder


@pytest.fixture
def eight(whole: Path, tmp_path: Path) -> Path:
    """The same run as it was after step 8: two checkpoints, and a log that is longer than they are."""
    folder = tmp_path / "run"
    subprocess.run(["cp", "-r", whole, folder], check=True)
    (folder / "step-000012").rename(tmp_path / "later")
    assert steps(folder) == [8, 4]
    return folder


# --------------------------------------------------------------------------------------------------------------- kills
@pytest.mark.prove  # test_kills.py kills at named stages
@pytest.mark.timeout(3600)  # a restart takes seconds
@pytest.mark.parametrize(
    ("ranks", "kills", "length"), [("1", "100", "600"), ("2", "30", "300"), ("4", "30", "300"), ("2", "1", "24")]
)
def test_kills_at_random_moments_change_no_loss_and_lose_no_checkpoint(
    ranks: str, kills: str, length: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    every = ("--steps", length, "--eval-every", "4", "--ranks", ranks)
    code = starter.main([*TINY, *every, "--kills", kills, "--out", str(tmp_path)])
    out = capfd.readouterr().out
    assert code == 0, out
    assert f"equal bit for bit: {length} training losses and {int(length) // 4} validation losses" in out
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +(\d+)$", out, re.MULTILINE)
    assert len(rows) == int(kills)
    assert all(int(at) - int(first) == int(lost) and int(first) % 4 == 0 for _, at, first, lost in rows)


@pytest.mark.prove
@pytest.mark.timeout(1500)
def test_the_kill_trial_notices_the_bug_of_break_it(tmp_path: Path) -> None:
    forgetful: Path = tmp_path / LAB09.lab.starter.relative_to(LAB09.lab.root)
    forgetful.parent.mkdir(parents=True)
    forgetful.write_text(LAB09.lab.starter.read_text())
    subprocess.run(["git", "apply", str(LAB09.lab.folder / "position-forgotten.diff")], cwd=tmp_path, check=True)
    command = [sys.executable, str(forgetful), *TINY, "--steps", "60", "--eval-every", "4", "--kills", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1200, check=False)
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +(\d+)$", done.stdout, re.MULTILINE)
    assert len(rows) == 3, done.stdout + done.stderr
    resumed = [int(first) for _, _, first, _ in rows if int(first)]
    assert resumed, "the seed of the trial decides the moments: the third is after step 12"
    assert done.returncode == 1
    assert f"parted at step {resumed[0] + 1}: " in done.stdout


def test_the_same_command_goes_on_and_then_has_nothing_to_do(
    whole: Path, eight: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert go_on(eight, "--steps", "12", "--eval-every", "4") == losses(whole)
    log = (eight / "log.jsonl").read_text()
    capfd.readouterr()
    go_on(eight, "--steps", "12", "--eval-every", "4")
    assert "give a larger --steps to continue" in capfd.readouterr().out
    assert (eight / "log.jsonl").read_text() == log


def test_another_number_of_ranks_goes_on_with_nearly_the_same_losses(tmp_path: Path) -> None:
    common = ("--dropout", "0", "--batch-size", "12", "--eval-every", "4")
    expected = go_on(tmp_path / "two", *common, "--steps", "8")
    go_on(tmp_path / "changed", *common, "--steps", "4", "--ranks", "1")
    changed = go_on(tmp_path / "changed", *common, "--steps", "8", "--ranks", "3")
    assert [step for step, _ in changed] == list(range(1, 9))
    assert [loss for _, loss in changed] == pytest.approx([loss for _, loss in expected], abs=1e-5)


# ---------------------------------------------------------------------------------------------------------------- saves
def test_the_newest_and_the_best_checkpoints_stay(tmp_path: Path) -> None:
    go_on(tmp_path, "--steps", "12", "--eval-every", "2", "--keep", "1", "--lr", "3")
    folders = steps(tmp_path)
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    val_losses = {event["step"]: event["val_loss"] for event in events if event["event"] == "eval"}
    best = min(val_losses, key=lambda step: val_losses[step])
    assert best != 12, "the rate is so large that training makes the model worse"
    assert folders == [12, best]


def cannot_write_step_8(state: Any, *, checkpoint_id: Path, process_group: Any) -> Any:
    if dist.get_rank() == 1:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        limit = 1000 if checkpoint_id.name == "step-000008.partial" else resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    return RIGHT_DCP.async_save(state, checkpoint_id=checkpoint_id, process_group=process_group)


@pytest.mark.parametrize("length", [12, 8])
def test_a_save_that_fails_on_one_rank_costs_a_message_and_the_last_one_the_exit_code(
    length: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fake = SimpleNamespace(**{name: getattr(RIGHT_DCP, name) for name in ("save", "CheckpointException")})
    fake.async_save = cannot_write_step_8
    monkeypatch.setattr(starter, "dcp", fake)
    arguments = [*TINY, "--steps", str(length), "--eval-every", "4", "--folder", str(tmp_path / "run")]
    if length == 12:
        assert starter.main(arguments) == 0
        assert steps(tmp_path / "run") == [12, 4]
    else:
        with pytest.raises(SystemExit) as stopped:
            starter.main(arguments)
        assert stopped.value.code == 2
        assert steps(tmp_path / "run") == [4]
    output = capfd.readouterr()
    assert re.search(r"step +8: could not save \(.*File too large", output.out), output.out
    if length == 8:
        assert "the last checkpoint was not saved" in output.err
    assert not list((tmp_path / "run").glob("*.partial"))
    assert losses(tmp_path / "run") == losses(whole)[:length]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for two checkpoints of the tiny model, not for three."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_loses_no_checkpoint_and_the_run_goes_on_when_there_is_room(
    small_disk: Path, whole: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = small_disk / "run"
    go_on(folder, "--steps", "4", "--eval-every", "4")
    used = sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
    size = int(used + 0.5 * 2**20 * used / 2**20)  # half a checkpoint is free
    subprocess.run(["mount", "-o", f"remount,size={size}", str(small_disk)], check=True)
    with pytest.raises(SystemExit) as stopped:
        starter.main([*TINY, "--steps", "8", "--eval-every", "4", "--folder", str(folder)])
    assert stopped.value.code == 2
    output = capfd.readouterr()
    assert re.search(r"could not save \(.*; [\d.]+ MiB are free in ", output.out), output.out
    assert "the last checkpoint was not saved" in output.err
    assert steps(folder) == [4]
    read_folder(folder / "step-000004", settings=SETTINGS)
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    assert go_on(folder, "--steps", "12", "--eval-every", "4") == losses(whole)


def test_a_folder_that_cannot_be_written_gets_one_sentence_and_keeps_its_checkpoints(
    small_disk: Path, whole: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = small_disk / "run"
    go_on(folder, "--steps", "4", "--eval-every", "4")
    arguments = [*TINY, "--steps", "8", "--eval-every", "4"]
    capfd.readouterr()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for target in (folder, small_disk / "new"):
        error = fails([*arguments, "--folder", str(target)], capfd)
        assert f"cannot write to {target} (Read-only file system): choose another place with --folder" in error
    subprocess.run(["mount", "-o", "remount,rw,size=8m", str(small_disk)], check=True)
    assert steps(folder) == [4]
    assert go_on(folder, "--steps", "12", "--eval-every", "4") == losses(whole)


# --------------------------------------------------------------------------------------------------------------- damage
DAMAGES = [
    (file, damage) for file in ("__1_0.distcp", ".metadata", "run.json") for damage in ("torn", "flipped", "gone")
]
IN_EACH_TEST = [("__1_0.distcp", "flipped"), (".metadata", "torn"), ("run.json", "gone")]


@pytest.mark.parametrize(
    ("file", "damage"),
    [pytest.param(*case, marks=() if case in IN_EACH_TEST else pytest.mark.prove) for case in DAMAGES],
)
def test_a_damaged_newest_checkpoint_falls_back_to_the_older_one(
    file: str, damage: str, eight: Path, whole: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = eight / "step-000008" / file
    data = bytearray(target.read_bytes())
    if damage == "torn":
        target.write_bytes(data[:-100])
    elif damage == "flipped":
        data[len(data) // 2] ^= 1
        target.write_bytes(data)
    else:
        target.unlink()
    resumed = go_on(eight, "--steps", "12", "--eval-every", "4")
    out = capfd.readouterr().out
    assert re.search(r"^note +checkpoint \S+/step-000008 (is damaged|was not written by this lab)", out, re.MULTILINE)
    assert "It is now step-000008.damaged; the run continues from step 4." in out
    assert "run     steps 5 to 12" in out
    assert resumed == losses(whole)
    assert steps(eight) == [12, 8]


def test_a_run_without_an_intact_checkpoint_does_not_start_over(eight: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for folder in finished_folders(eight):
        (folder / "run.json").unlink()
    error = fails([*TINY, "--steps", "12", "--folder", str(eight)], capfd)
    assert f"no checkpoint in {eight} is intact" in error
    assert steps(eight) == [8, 4]


# -------------------------------------------------------------------------------------------------------------- signals
@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.prove)])
def test_a_signal_during_a_save_finishes_the_step_and_saves(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(LAB09.lab.starter), *TINY, "--eval-every", "1", "--print-every", "1"]
    with subprocess.Popen(
        [*command, "--steps", "100000", "--folder", "run"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if re.match(r"step +3/\d+  saving", line):
                break
        descendants = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)  # while step 3 is being written, or just after
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    stopped = re.search(r"Stopped by (SIGTERM|Ctrl-C) after step (\d+), which is saved", out)
    assert stopped
    last = int(stopped[2])
    assert steps(tmp_path / "run")[0] == last
    read_folder(tmp_path / "run" / f"step-{last:06d}", settings=SETTINGS)
    assert [step for step, _ in losses(tmp_path / "run")] == list(range(1, last + 1))
    psutil.wait_procs(descendants, timeout=5)
    assert not [child for child in descendants if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


# -------------------------------------------------------------------------------------------------------------- options
def test_the_default_options_are_those_on_the_page() -> None:
    options = vars(starter.make_parser().parse_args([]))
    names = ("steps", "batch_size", "eval_every", "keep", "dropout", "sync_save", "kills", "folder")
    assert [options[name] for name in names] == [100, 12, 25, 2, 0.1, False, 0, None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ranks", "5"], "--batch-size 12 does not divide into 5 ranks"),
        (["--keep", "0"], "--keep: '0' must be a whole number of at least 1"),
        (["--resume"], "unknown option --resume: --help lists the options"),
        (["--dropout", "1"], "dropout is 1.0: it must be at least 0 and below 1"),
        (["--ema-decay", "1.5"], "--ema-decay: '1.5' must be a number from 0 to 1"),
        (["--kills", "2", "--folder", "x"], "--kills makes its own folders: leave --folder out"),
        (["--folder", "/proc/nowhere"], "cannot write to /proc/nowhere"),
        (["--corpus", "nowhere.txt"], "nowhere.txt"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_gets_one_sentence_and_no_file_is_written(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in fails(arguments, capfd)
    assert [*tmp_path.iterdir()] == []


def test_a_checkpoint_of_another_model_gets_one_sentence(eight: Path, capfd: pytest.CaptureFixture[str]) -> None:
    error = fails(["--folder", str(eight), "--hidden-dim", "64", "--steps", "12"], capfd)
    assert "holds a model of --hidden-dim 32, not 64: leave --hidden-dim out" in error
