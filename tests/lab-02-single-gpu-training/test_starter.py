"""Starter of Lab 02, run with real processes, files and signals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from starters import LONG_S, TINY, Starter, losses
from tiers import sampled
from warm_process import cold_starts

from rankzero.learn.machine.fingerprint import git_commit
from rankzero.learn.runs.plots import read_log

LAB02 = Starter("02")
LAB, starter = LAB02.lab, LAB02.module
run, train, fails = LAB02.run, LAB02.train, LAB02.fails


def test_the_documented_command_works_from_any_folder(tmp_path: Path) -> None:
    done = run("--steps", "4", "--batch-size", "64", "--hidden-dim", "128", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "808,064 parameters" in done.stdout
    assert "the model now writes:" in done.stdout
    folder = tmp_path / "runs" / "lab-02-001"
    assert {file.name for file in folder.iterdir()} == {"log.jsonl", "curves.png", "checkpoint.pt"}
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert [step for step, _ in losses(folder)] == [1, 2, 3, 4]
    (facts,) = read_log(folder / "log.jsonl")["run"]
    assert facts["settings"]["batch_size"] == 64
    assert facts["commit"] == git_commit(LAB.root)["commit"]


def test_the_default_options_are_those_on_the_page() -> None:
    options = vars(starter.make_parser().parse_args([]))
    assert (options["steps"], options["batch_size"], options["block_size"], options["hidden_dim"]) == (600, 12, 64, 128)


def test_help_names_every_option_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        starter.main(["--help"])
    assert stopped.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in ("--steps", "--batch-size", "--hidden-dim", "--checkpoint", "--corpus", "--device", "--seed", "--lr"):
        assert option in text
    assert "sequences per step (default: 12)" in text


@pytest.mark.prove
def test_a_small_run_learns(tmp_path: Path) -> None:
    folder = train(tmp_path, "--steps", "200", "--lr", "5e-3", "--eval-every", "100")
    log = read_log(folder / "log.jsonl")
    assert log["step"][0]["loss"] == pytest.approx(4.56, abs=0.15)  # ln 96, the loss of a uniform prediction
    assert log["eval"][-1]["val_loss"] < 3.3
    assert log["eval"][-1]["val_loss"] < log["eval"][0]["val_loss"]


@pytest.mark.parametrize(
    "schedule",
    [pytest.param([], id="constant", marks=pytest.mark.prove), pytest.param(["--decay-steps", "100"], id="cosine")],
)
def test_resume_is_exact(tmp_path: Path, schedule: list[str]) -> None:
    whole = train(tmp_path, "--steps", "100", *schedule)
    half = train(tmp_path, "--steps", "50", *schedule)
    resumed = train(tmp_path, "--steps", "100", *schedule, "--resume", str(half / "checkpoint.pt"))
    assert losses(half) + losses(resumed) == losses(whole), "every loss, bit for bit"
    final_states = [torch.load(folder / "checkpoint.pt", weights_only=True) for folder in (whole, resumed)]
    assert final_states[0]["step"] == final_states[1]["step"] == 100
    for name, tensor in final_states[0]["model"].items():
        assert torch.equal(tensor, final_states[1]["model"][name]), name
    averages, resumed_averages = (state["optimizer"]["state"].values() for state in final_states)
    for expected, average in zip(averages, resumed_averages, strict=True):
        assert all(torch.equal(average[key], expected[key]) for key in ("step", "exp_avg", "exp_avg_sq"))


def test_resume_without_a_path_resumes_the_newest_run_with_its_settings(tmp_path: Path) -> None:
    whole = train(tmp_path, "--steps", "8", "--seed", "3", "--lr", "0.01")
    half = train(tmp_path, "--steps", "4", "--seed", "3", "--lr", "0.01")
    assert starter.main(["--steps", "8", "--resume", "--out", str(tmp_path / "runs")]) == 0
    assert losses(half) + losses(tmp_path / "runs" / "lab-02-003") == losses(whole)


@pytest.mark.prove
def test_a_named_checkpoint_is_resumed_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "mine.pt"
    train(tmp_path, "--steps", "3", "--checkpoint", str(file))
    first = file.read_bytes()
    train(tmp_path, "--steps", "5", "--checkpoint", str(file), "--resume")
    assert torch.load(file, weights_only=True)["step"] == 5
    assert file.read_bytes() != first
    assert list(tmp_path.glob(".*.partial")) == []


@pytest.mark.prove
def test_the_same_seed_repeats_the_run_and_another_seed_does_not(tmp_path: Path) -> None:
    first, same, other = (losses(train(tmp_path, "--steps", "5", "--seed", seed)) for seed in ("1", "1", "2"))
    assert first == same
    assert first != other


@pytest.mark.prove
def test_a_resumed_run_finds_its_corpus_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question\n" * 20)
    monkeypatch.chdir(tmp_path)
    half = train(tmp_path, "--steps", "2", "--corpus", "text.txt")
    monkeypatch.chdir("/")
    resumed = train(tmp_path, "--steps", "4", "--resume", str(half / "checkpoint.pt"))
    assert [step for step, _ in losses(resumed)] == [3, 4]


BAD_OPTIONS = [
    (["--frobnicate"], "unknown option --frobnicate"),
    (["--step", "5"], "unknown option --step: did you mean --steps?"),
    (["--steps", "-5"], "--steps: '-5' must be a whole number of at least 1"),
    (["--batch-size", "0"], "--batch-size: '0' must be a whole number of at least 1"),
    (["--lr", "-0.1"], "--lr: '-0.1' must be a number above 0"),
    (["--seed", "x"], "--seed: 'x' must be a whole number of at least 0"),
    (["--batch-size", "1000000000"], "out of memory: this would need about"),
    (["--hidden-dim", "200000"], "out of memory: this would need about"),
    (["--layers", "1000000000"], "out of memory: this would need about"),
    (["--lr", "1e300"], "--lr: '1e300' must be a number above 0 and at most 1e38"),
    (["--resume", ""], "is damaged, or is not a checkpoint"),
    (["--corpus", "loop.txt"], "corpus loop.txt cannot be read"),
    (["--checkpoint", "x" * 300 + ".pt"], "cannot write to"),
    (["--out", "x" * 300], "cannot write to"),
    (["--hidden-dim", "130"], "hidden_dim 130 does not divide into 4 attention heads: use a multiple of 4"),
    (["--device", "tpu"], "device 'tpu' is not known"),
    (["--device", "cuda:99"], "device cuda:99 is not there"),
    (["--corpus", "none.txt"], "corpus none.txt does not exist"),
    (["--corpus", "picture.png"], "corpus picture.png is not UTF-8 text"),
    (["--corpus", "short.txt"], "too short for one sequence of 64 and its targets (65)"),
    (["--block-size", "1000000"], "too short for one sequence of 1000000"),
    (["--out", "short.txt"], "cannot write to short.txt"),
    (["--out", "/proc/runs"], "cannot write to /proc/runs"),
    (["--checkpoint", "short.txt"], "short.txt exists: resume from it with --resume"),
    (["--checkpoint", "nowhere/x.pt"], "cannot write to nowhere"),
    (["--resume", "none.pt"], "checkpoint none.pt does not exist"),
    (["--resume", "short.txt"], "checkpoint short.txt is damaged, or is not a checkpoint"),
    (["--resume", "other.pt"], "checkpoint other.pt was not written by this lab"),
    (["--resume"], "no run under runs/ has a checkpoint to resume from"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_OPTIONS, ids=lambda value: str(value)[:40])
def test_bad_input_gets_one_sentence_and_no_file_is_written(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short.txt").write_text("too short\n")
    Path("picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    torch.save({"weights": torch.zeros(2)}, "other.pt")
    Path("loop.txt").symlink_to("loop.txt")
    before = {file: file.read_bytes() for file in tmp_path.iterdir() if file.name != "loop.txt"}
    assert message in fails(arguments, capsys)
    assert {file: file.read_bytes() for file in tmp_path.iterdir() if file.name != "loop.txt"} == before


def test_the_refusal_of_a_checkpoint_names_the_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = train(tmp_path, "--steps", "3") / "checkpoint.pt"
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question\n" * 40)
    capsys.readouterr()
    resume = ["--resume", str(checkpoint), "--steps", "9", "--out", str(tmp_path / "more")]
    for arguments, message in [
        (["--hidden-dim", "64"], "holds a model of --hidden-dim 32, not 64: leave --hidden-dim out"),
        (["--layers", "2"], "holds a model of --layers 1, not 2"),
        (["--corpus", str(text)], "was trained on another text than"),
        (["--steps", "3"], "is at step 3 already: ask for more than that with --steps"),
    ]:
        assert message in fails([*resume, *arguments], capsys)
    saved = torch.load(checkpoint, weights_only=True)
    changes: list[dict[str, Any]] = [
        {"model": {}},
        {"model": 3},
        {"optimizer": {}},
        {"optimizer": {"state": {}, "param_groups": []}},
        {"optimizer": saved["optimizer"] | {"state": {}}},
        {"optimizer": saved["optimizer"] | {"param_groups": [saved["optimizer"]["param_groups"][0] | {"betas": None}]}},
        {"model": {name: tensor.int() for name, tensor in saved["model"].items()}},
    ]
    for change in changes:
        torch.save(saved | change, checkpoint)
        assert "holds another model: resume from another, or start a new run" in fails(resume, capsys)
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize(
    "change",
    sampled([{"batch_size": -1}, {"lr": None}, {"corpus": 5}, {"seed": [1]}, {"hidden_dim": 8.5}], [{"lr": None}]),
)
def test_hostile_settings_in_a_checkpoint_get_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object]
) -> None:
    checkpoint = train(tmp_path, "--steps", "2") / "checkpoint.pt"
    saved = torch.load(checkpoint, weights_only=True)
    torch.save(saved | {"settings": saved["settings"] | change}, checkpoint)
    capsys.readouterr()
    fails(["--resume", str(checkpoint), "--steps", "4", "--out", str(tmp_path / "more")], capsys)
    assert not (tmp_path / "more").exists()


def test_a_diverged_model_is_not_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        starter.main([*TINY, "--steps", "1", "--lr", "1e30", "--warmup-steps", "0", "--out", str(tmp_path)])
    assert stopped.value.code == 2
    assert "the validation loss became" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.pt"))


@pytest.mark.prove
def test_another_file_named_like_a_partial_file_is_not_changed(tmp_path: Path) -> None:
    other_file = tmp_path / "mine.pt.partial"
    other_file.write_text("precious")
    train(tmp_path, "--steps", "2", "--checkpoint", str(tmp_path / "mine.pt"))
    assert other_file.read_text() == "precious"


def test_a_loss_that_explodes_stops_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        starter.main([*TINY, "--lr", "1e38", "--out", str(tmp_path)])
    assert stopped.value.code == 2
    assert "loss became nan at step" in capsys.readouterr().err


def test_out_of_memory_gets_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    def fail(*arguments: object, **settings: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(starter, "train_step", fail)
    with pytest.raises(SystemExit) as stopped:
        starter.main([*TINY, "--out", str(tmp_path)])
    assert stopped.value.code == 2
    assert "out of memory: use a smaller --batch-size" in capsys.readouterr().err


def test_a_full_disk_keeps_the_existing_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.pt"
    train(tmp_path, "--steps", "2", "--checkpoint", str(file))
    before = file.read_bytes()

    def fail(value: object, path: Path) -> None:
        path.write_bytes(b"half a file")
        raise RuntimeError("PytorchStreamWriter failed writing file")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(SystemExit):
        starter.main([*TINY, "--steps", "4", "--checkpoint", str(file), "--resume", "--out", str(tmp_path / "runs")])
    assert file.read_bytes() == before
    assert list(tmp_path.glob(".*.partial")) == []


def interrupt(arguments: list[str], cwd: Path, times: int) -> tuple[int, str, str]:
    """Runs the starter, sends Ctrl-C after some steps, and returns its exit code, output and errors."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(LAB.starter), *arguments]
    with cold_starts():
        process = subprocess.Popen(
            command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
    assert process.stdout is not None
    printed = ""
    while "step     1/" not in printed:
        line = process.stdout.readline()
        assert line, f"ended early: {printed}{process.communicate(timeout=LONG_S)}"
        printed += line
    for _ in range(times):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LONG_S)
    return process.returncode, printed + out, err


@pytest.mark.prove  # test_first_moment.py stops this starter by Ctrl-C, and test_stop_request.py resumes it
@pytest.mark.real
def test_ctrl_c_finishes_the_step_saves_it_and_prints_the_command_to_resume(tmp_path: Path) -> None:
    code, out, err = interrupt([*TINY, "--steps", "1000000"], tmp_path, times=1)
    assert code == 130
    assert err == ""
    folder = tmp_path / "runs" / "lab-02-001"
    saved = torch.load(folder / "checkpoint.pt", weights_only=True)["step"]
    assert f"Stopped by Ctrl-C after step {saved}, which is saved. Go on with\n  python " in out
    assert losses(folder)[-1][0] == saved
    done = run("--resume", str(folder / "checkpoint.pt"), "--steps", str(saved + 1), cwd=tmp_path)
    assert f"run     steps {saved + 1} to {saved + 1}" in done.stdout


def test_the_log_is_json_lines(tmp_path: Path) -> None:
    folder = train(tmp_path, "--steps", "3")
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["run", "step", "window", "step", "step", "window", "eval"]


@pytest.mark.prove
def test_a_run_changes_no_file_of_another_run(tmp_path: Path) -> None:
    first = train(tmp_path, "--steps", "2")
    before = {file: file.read_bytes() for file in first.iterdir()}
    second = train(tmp_path, "--steps", "2", "--seed", "9")
    assert second != first
    assert {file: file.read_bytes() for file in first.iterdir()} == before
