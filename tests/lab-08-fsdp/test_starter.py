"""Starter of Lab 08: sharded training equals one process, resumes on other ranks, and survives a killed rank."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch.distributed as dist
from starters import LONG_S, TINY, Starter, import_starter, losses
from tiers import sampled
from warm_process import cold_starts

from rankzero.learn.distributed.sharded_checkpoint import newest_step_folder
from rankzero.learn.distributed.world import run_world

LAB02, LAB08 = Starter("02"), Starter("08")
starter, train, fails = LAB08.module, LAB08.train, LAB08.fails
TWELVE = ("--batch-size", "12")


def values(folder: Path) -> list[float]:
    return [loss for _, loss in losses(folder)]


# ----------------------------------------------------------------------------------------------------------- equality
def test_a_run_prints_the_equality_with_one_process_and_the_memory_of_each_rank(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question\n" * 40)
    train(tmp_path, *TWELVE, "--steps", "1", "--corpus", str(text), "--layers", "2")
    out = capfd.readouterr().out
    assert "equal within 1e-12 in float64" in out
    assert "NOT EQUAL" not in out
    errors = re.findall(r"^float64  (gradient|new weights) +\S+ +\S+ +(\S+)$", out, re.MULTILINE)
    assert [name for name, _ in errors] == ["gradient", "new weights"]
    assert all(float(relative) <= 1e-12 for _, relative in errors)
    pattern = r"^(reshard|no reshard|DDP) +(each rank|rank \d) +\S+ +\S+ +\S+ +(\S+)$"
    held: dict[str, float] = {}  # on both ranks together
    for name, rows, total in re.findall(pattern, out, re.MULTILINE):
        held[name] = held.get(name, 0) + float(total) * (2 if rows == "each rank" else 1)
    assert held["reshard"] == held["no reshard"] == pytest.approx(held["DDP"] / 2, abs=0.02)
    calls = {name: re.findall(rf"^{name} +(\d+) +(\d+) +\S+ +(\d+) \S", out, re.MULTILINE) for name in held}
    assert calls == {"reshard": [("3", "2", "3")], "no reshard": [("3", "0", "3")], "DDP": [("0", "0", "1")]}


def test_the_losses_are_those_of_lab_02(tmp_path: Path) -> None:
    lab02_folder = LAB02.train(tmp_path / "02", *TWELVE, "--steps", "12")
    lab08_folder = train(tmp_path / "08", *TWELVE, "--steps", "12", "--no-reshard")
    assert values(lab08_folder) == pytest.approx(values(lab02_folder), abs=5e-4)


@pytest.mark.prove
def test_bf16_has_nearly_the_same_losses(tmp_path: Path) -> None:
    full = train(tmp_path / "fp32", *TWELVE, "--steps", "8")
    low = train(tmp_path / "bf16", *TWELVE, "--steps", "8", "--precision", "bf16")
    assert values(low) == pytest.approx(values(full), abs=0.02)
    assert values(low) != values(full)


def parameters_and_calls(block_only: bool) -> tuple[list[int], int]:
    from rankzero.learn.models.gpt import GPT, GPTConfig

    model, _ = import_starter("08").shard(GPT(GPTConfig(24, 8, n_layer=2, n_head=2, hidden_dim=16)), 1e-3)
    return [p.to_local().numel() for p in model.parameters()], dist.get_world_size()


@pytest.mark.parametrize("ranks", sampled([2, 3], [3]))
def test_every_number_belongs_to_one_rank(ranks: int) -> None:
    by_rank = run_world(parameters_and_calls, ranks, False)
    assert sum(sum(numbers) for numbers, _ in by_rank) == (24 + 8 + 1) * 16 + 2 * (12 * 16**2 + 2 * 16)


# --------------------------------------------------------------------------------------------------- save and restore
@pytest.mark.parametrize("numbers", [("2", "3"), pytest.param(("1", "4"), marks=pytest.mark.prove)])
def test_a_checkpoint_of_two_ranks_resumes_on_any_number_of_ranks(numbers: tuple[str, ...], tmp_path: Path) -> None:
    whole = train(tmp_path, *TWELVE, "--steps", "9")
    half = train(tmp_path, *TWELVE, "--steps", "6")
    for ranks in numbers:
        resumed = train(tmp_path, "--steps", "9", "--resume", str(half), "--ranks", ranks, *TWELVE)
        together = values(half) + values(resumed)
        if ranks == "2":
            assert together == values(whole), "every loss, bit for bit"
        assert together == pytest.approx(values(whole), abs=1e-5), f"on {ranks} ranks"


def test_only_the_last_checkpoint_stays_and_each_rank_has_written_a_file(tmp_path: Path) -> None:
    folder = train(tmp_path, "--steps", "4", "--eval-every", "2")
    assert [path.name for path in folder.glob("step*")] == ["step-000004"]
    files = sorted(file.name for file in (folder / "step-000004").iterdir())
    assert files == [".metadata", "__0_0.distcp", "__1_0.distcp", "run.json"]


def dies_in_training(*arguments: Any, step: list[int] = [0], **options: Any) -> Any:  # noqa: B006
    step[0] += 1
    if step[0] == 9 and dist.get_rank() == 1:  # the first four steps are those of the comparison and of the count
        os.kill(os.getpid(), signal.SIGKILL)
    return RIGHT_STEP(*arguments, **options)


def dies_before_the_rename(partial: Path, **facts: Any) -> Path:
    if facts["step"] == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return RIGHT_FINISH(partial, **facts)


def dies_while_writing(state: Any, checkpoint_id: Path) -> None:
    if "000004" in checkpoint_id.name and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    RIGHT_DCP.save(state, checkpoint_id=checkpoint_id)


RIGHT_STEP, RIGHT_FINISH, RIGHT_DCP = starter.train_step, starter.finish_folder, starter.dcp


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("in training", marks=pytest.mark.prove),
        "while writing",
        pytest.param("before the rename", marks=pytest.mark.prove),
    ],
)
def test_a_killed_rank_ends_the_run_and_the_earlier_checkpoint_stays(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if moment == "in training":
        monkeypatch.setattr(starter, "train_step", dies_in_training)
    elif moment == "while writing":
        fake = SimpleNamespace(save=dies_while_writing, load=RIGHT_DCP.load)
        monkeypatch.setattr(starter, "dcp", fake)
    else:
        monkeypatch.setattr(starter, "finish_folder", dies_before_the_rename)
    runs = tmp_path / "runs"
    assert starter.main([*TINY, "--steps", "6", "--eval-every", "2", "--out", str(runs)]) == 1
    victim = 0 if moment == "before the rename" else 1
    assert f"rank {victim} of 2" in (errors := capsys.readouterr().err), errors
    assert "was killed by SIGKILL" in errors
    monkeypatch.undo()
    newest = newest_step_folder(runs / "lab-08-001")
    assert newest is not None
    assert newest.name == "step-000002"
    assert values(train(tmp_path, "--steps", "4", "--resume")) == values(train(tmp_path, "--steps", "4"))[2:]


@pytest.mark.parametrize("damage", sampled(["cut off", "missing", "of no run", "unfinished"], ["cut off"]))
def test_a_damaged_checkpoint_gets_one_sentence(
    damage: str, tmp_path: Path, checkpoint: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "step-000002"
    subprocess.run(["cp", "-r", checkpoint, copy], check=True)
    if damage == "cut off":
        (copy / "__1_0.distcp").write_bytes((copy / "__1_0.distcp").read_bytes()[:-100])
    elif damage == "missing":
        (copy / "__0_0.distcp").unlink()
    elif damage == "of no run":
        (copy / "run.json").write_text("[]")
    else:
        copy = copy.rename(tmp_path / "step-000002.partial")
    error = fails(["--resume", str(copy), "--out", str(tmp_path / "runs")], capfd)
    words = {"cut off": "__1_0.distcp is missing, or has another", "missing": "__0_0.distcp is missing, or has"}
    words |= {"of no run": "was not written by this lab", "unfinished": "was never finished"}
    assert words[damage] in error
    assert not (tmp_path / "runs").exists()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = newest_step_folder(train(tmp_path_factory.mktemp("saved"), "--steps", "2"))
    assert folder is not None
    return folder


# ----------------------------------------------------------------------------------------------------------------- run
@pytest.mark.real
def test_ranks_that_are_started_from_outside_have_the_same_losses(tmp_path: Path) -> None:
    here = train(tmp_path, "--steps", "3")
    done = LAB08.run_as_ranks(2, *TINY, "--steps", "3", cwd=tmp_path)
    assert [process.returncode for process in done] == [0, 0], done[1].stderr
    assert sum(process.stdout.count("validation loss") for process in done) == 1, "only one rank prints"
    folder = tmp_path / "runs" / "lab-08-002"
    assert {file.name for file in folder.iterdir()} == {"log.jsonl", "curves.png", "step-000003"}
    assert values(folder) == values(here)


@pytest.mark.prove
def test_torchrun_starts_the_ranks(tmp_path: Path) -> None:
    here = train(tmp_path, "--steps", "3")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(LAB08.lab.starter), *TINY]
    done = subprocess.run(
        [*command, "--steps", "3"], cwd=tmp_path, capture_output=True, text=True, timeout=LONG_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("validation loss") == 1, "only one rank prints"
    assert values(tmp_path / "runs" / "lab-08-002") == values(here)


@pytest.mark.prove  # test_stop_request.py stops this starter, and Lab 07 tests Ctrl-C with ranks
@pytest.mark.real
def test_ctrl_c_finishes_the_step_and_saves(tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(LAB08.lab.starter), *TINY, "--steps", "100000", "--eval-every", "100000"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with cold_starts():
        process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **pipes)
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step     1/"):
                break
        descendants = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130, err
    assert err == ""
    stopped = re.search(r"Stopped by Ctrl-C after step (\d+), which is saved\. Go on with", out)
    assert stopped
    assert newest_step_folder(tmp_path / "runs" / "lab-08-001") is not None
    psutil.wait_procs(descendants, timeout=LONG_S)
    assert not [child for child in descendants if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


def test_the_default_options_are_those_on_the_page() -> None:
    options = vars(starter.make_parser().parse_args([]))
    names = ("steps", "batch_size", "no_reshard", "precision", "eval_every", "checkpoint")
    assert [options[name] for name in names] == [100, 12, False, "fp32", 50, None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ranks", "5"], "--batch-size 12 does not divide into 5 ranks"),
        (["--ranks", "0"], "--ranks: '0' must be a whole number of at least 1"),
        (["--ranks", "1000"], "1000 ranks: use 1 to 64"),
        (["--precision", "fp16"], "--precision: invalid choice: 'fp16'"),
        (["--no-reshrad"], "unknown option --no-reshrad: did you mean --no-reshard?"),
        (["--checkpoint", "x.pt"], "unknown option --checkpoint"),
        (["--device", "mps"], "device 'mps' is not for ranks"),
        (["--batch-size", "1000000000"], "out of memory: this would need about"),
        (["--resume", "nowhere"], "checkpoint nowhere does not exist"),
        (["--resume"], "no run under runs/ has a checkpoint to resume from"),
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


def test_a_checkpoint_of_another_model_gets_one_sentence(
    checkpoint: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    error = fails(["--resume", str(checkpoint), "--hidden-dim", "64", "--out", str(tmp_path / "runs")], capfd)
    assert "holds a model of --hidden-dim 32, not 64: leave --hidden-dim out" in error
    assert "is at step 2 already" in fails(["--resume", str(checkpoint), "--steps", "2"], capfd)


def test_break_it_is_a_patch_of_this_starter(tmp_path: Path) -> None:
    target = tmp_path / LAB08.lab.starter.relative_to(LAB08.lab.root)
    target.parent.mkdir(parents=True)
    target.write_text(LAB08.lab.starter.read_text())
    subprocess.run(["git", "apply", str(LAB08.lab.folder / "optimizer-before-sharding.diff")], cwd=tmp_path, check=True)
    assert "return model, optimizer\n" in target.read_text()
