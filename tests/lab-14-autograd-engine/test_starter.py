"""Lab 14's starter as a learner runs it: its numbers beside torch's, its drawing, its mistakes, its signals."""

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from starters import Starter, losses

from rankzero.exercises.probes.loader import load
from rankzero.exercises.study.starter_process import replacements
from rankzero.learn.runs.plots import read_log

LAB14 = Starter("14")
LAB, starter = LAB14.lab, LAB14.module
SMALL = ("--hidden-dim", "8", "--batch-size", "16")


def train(folder: Path, *arguments: str) -> Path:
    """Trains a small net in this process; returns the run's folder."""
    before = set(folder.glob("runs/*"))
    assert starter.main([*SMALL, *arguments, "--out", str(folder / "runs")]) == 0
    (run_folder,) = set(folder.glob("runs/*")) - before
    return run_folder


def test_the_documented_command_works_from_any_folder(tmp_path: Path) -> None:
    done = LAB14.run("--steps", "5", "--plot", "--draw", "graph.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "64-32-10, 2,410 weights in float64" in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines())
    folder = tmp_path / "runs" / "lab-14-001"
    assert {file.name for file in folder.iterdir()} == {"log.jsonl", "weights.npz", "losses.png"}
    assert [step for step, _ in losses(folder)] == [1, 2, 3, 4, 5]
    assert len(read_log(folder / "log.jsonl")["run"][0]["commit"]) == 40


@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-12), ("float32", 2e-5)])
def test_engine_and_torch_have_the_same_losses(dtype: str, limit: float, tmp_path: Path) -> None:
    folder = train(tmp_path, "--steps", "100", "--dtype", dtype, "--seed", "3")
    steps = read_log(folder / "log.jsonl")["step"]
    assert max(abs(step["loss"] - step["torch_loss"]) for step in steps) < limit
    assert steps[-1]["loss"] < 0.7 * steps[0]["loss"]
    with np.load(folder / "weights.npz") as weights:
        assert {name: weights[name].dtype for name in weights} == dict.fromkeys(("w1", "b1", "w2", "b2"), dtype)


def test_the_net_learns_the_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert starter.main(["--steps", "300", "--out", str(tmp_path)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("validation")]
    assert float(line.split()[1].rstrip("%")) > 90


def test_the_printed_gradients_pass_both_tests(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    weights = {
        name: rng.standard_normal(shape) for name, shape in (("w1", (6, 5)), ("b1", 5), ("w2", (5, 3)), ("b2", 3))
    }
    starter.print_gradients(weights, rng.standard_normal((7, 6)), rng.integers(3, size=7), 0.1)
    rows = [line.replace("]", " ").split() for line in capsys.readouterr().out.splitlines()[1:] if line]
    assert [row[0] for row in rows] == ["w1", "b1", "w2", "b2", "hidden", "logits"]
    for row in rows[:4]:
        derivative, difference = (float(number) for number in row[-2:])
        assert derivative == pytest.approx(difference, abs=2e-8)
    assert all(float(row[-3 if place < 4 else -1]) < 1e-13 for place, row in enumerate(rows))


def test_a_gradient_that_is_set_instead_of_added_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def last_share_wins(loss: object) -> None:
        loss.grad = np.ones_like(loss.data)  # type: ignore[attr-defined]
        for result in reversed(starter.TAPE):
            for parent, share in zip(result.parents, result.vjp(result.grad), strict=True):
                parent.grad = share
        starter.TAPE.clear()

    monkeypatch.setattr(starter, "backward", last_share_wins)
    rng = np.random.default_rng(0)
    weights = {
        name: rng.standard_normal(shape) for name, shape in (("w1", (6, 5)), ("b1", 5), ("w2", (5, 3)), ("b2", 3))
    }
    starter.print_gradients(weights, rng.standard_normal((7, 6)), rng.integers(3, size=7), 0.1)
    rows = [line.replace("]", " ").split() for line in capsys.readouterr().out.splitlines()[1:] if line]
    wrong = {row[0] for row in rows[:4] if float(row[-3]) > 1e-6}
    assert wrong == {"w1", "w2"}, "the weights that the loss uses twice"


def test_the_drawing_is_a_picture_of_the_graph(tmp_path: Path) -> None:
    file = tmp_path / "graph.svg"
    train(tmp_path, "--steps", "1", "--draw", str(file))
    picture = ElementTree.fromstring(file.read_text(encoding="utf-8"))
    name = "{http://www.w3.org/2000/svg}"
    texts = [element.text for element in picture.iter(f"{name}text")]
    assert {"x", "w1", "b1", "w2", "b2", "cross-entropy", "[16, 8]"} <= set(texts)
    operations = [text for text in texts if text in ("matmul", "add row", "sigmoid", "half squares", "add")]
    assert len(operations) == 9
    boxes = [(float(box.get("x")), float(box.get("y"))) for box in picture.iter(f"{name}rect")]  # type: ignore[arg-type]
    assert len(set(boxes)) == len(boxes) == 15
    assert len(list(picture.iter(f"{name}path"))) == 16, "a line for each operand of each operation"


def test_the_learners_engine_gives_the_starters_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = losses(train(tmp_path, "--steps", "20"))
    for name, function in replacements(LAB, LAB.reference).items():
        monkeypatch.setattr(starter, name, function)
    file = tmp_path / "graph.svg"
    folder = train(tmp_path, "--steps", "20", "--draw", str(file))
    assert [loss for _, loss in losses(folder)] == pytest.approx([loss for _, loss in own], abs=1e-12)
    assert "cross-entropy" in file.read_text(encoding="utf-8")


def test_mine_names_functions_of_the_exercises() -> None:
    learner = load(LAB.reference)
    assert all(callable(getattr(learner, name)) for name in load(LAB.mine).USES)


def test_the_same_seed_repeats_the_run_and_another_seed_does_not(tmp_path: Path) -> None:
    first, same, other = (losses(train(tmp_path, "--steps", "5", "--seed", seed)) for seed in ("1", "1", "2"))
    assert first == same
    assert first != other


def test_help_names_every_option_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        starter.main(["--help"])
    assert stopped.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in (
        "--steps",
        "--batch-size",
        "--hidden-dim",
        "--lr",
        "--decay",
        "--dtype",
        "--draw",
        "--plot",
        "--out",
    ):
        assert option in text
    assert "pictures per step (default: 64)" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--frobnicate"], "unknown option --frobnicate"),
        (["--step", "5"], "unknown option --step: did you mean --steps?"),
        (["--steps", "0"], "--steps: '0' must be a whole number of at least 1"),
        (["--lr", "-1"], "--lr: '-1' must be a number above 0"),
        (["--decay", "x"], "--decay: 'x' must be a number"),
        (["--dtype", "float16"], "--dtype: invalid choice: 'float16'"),
        (["--images", "nowhere"], "folder nowhere does not exist"),
        (["--draw", "nowhere/graph.svg"], "cannot write nowhere/graph.svg"),
        (["--out", "x" * 300], "cannot write to"),
        (["--hidden-dim", "1000000000000"], "out of memory: use a smaller --batch-size"),
    ],
)
def test_bad_input_gets_one_sentence_and_no_file_is_written(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in LAB14.fails(arguments, capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_loss_that_explodes_stops_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped, np.errstate(all="ignore"):
        starter.main([*SMALL, "--lr", "1e30", "--out", str(tmp_path)])
    assert stopped.value.code == 2
    assert "start again with a smaller --lr" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code", "name"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")])
def test_a_signal_finishes_the_step_and_saves(number: int, code: int, name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(LAB.starter), *SMALL, "--steps", "10000000"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    printed = ""
    while "step   100/" not in printed:
        line = process.stdout.readline()
        assert line, f"ended early: {printed}{process.communicate(timeout=60)}"
        printed += line
    process.send_signal(number)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (code, "")
    folder = tmp_path / "runs" / "lab-14-001"
    steps = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()][1:]
    assert f"Stopped by {name} after step {steps[-1]['step']}; its weights are saved." in out
    assert (folder / "weights.npz").is_file()


def test_a_tensor_hook_sees_what_torch_frees() -> None:
    rng = np.random.default_rng(0)
    weights = {
        name: rng.standard_normal(shape) for name, shape in (("w1", (6, 5)), ("b1", 5), ("w2", (5, 3)), ("b2", 3))
    }
    x, labels = rng.standard_normal((7, 6)), rng.integers(3, size=7)
    own, twin = (step(weights, x, labels, 0.1)[1] for step in (starter.engine_step, starter.torch_step))
    assert set(own) == set(twin) == {"w1", "b1", "w2", "b2", "hidden", "logits"}
    for name, gradient in own.items():
        assert torch.allclose(torch.from_numpy(gradient), torch.from_numpy(twin[name]), rtol=0, atol=1e-14), name
