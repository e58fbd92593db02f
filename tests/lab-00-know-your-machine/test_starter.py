"""Lab 00's starter as a learner runs it: its files, its numbers that no clock decides, its mistakes, its signals."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.text import Text
from starters import LONG_S, Starter
from warm_process import cold_starts

from rankzero.exercises.probes.loader import load
from rankzero.learn.profiling.roofline_plots import plot_roofline
from rankzero.learn.profiling.roofline_report import limit_sentence
from rankzero.learn.profiling.step_operations import gpt_operations

LAB00 = Starter("00")
LAB, starter = LAB00.lab, LAB00.module
SMALL = ("--threads", "1", "--seconds", "0.002", "--max-width", "64", "--max-mib", "1", "--device", "cpu")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def machine_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of the test's own for the rates that the starter keeps."""
    file = tmp_path / "cache" / "machine.json"
    monkeypatch.setenv("RANKZERO_MACHINE", str(file))
    monkeypatch.setattr(starter.psutil, "cpu_percent", lambda interval: 0.0)  # as on an idle machine
    return file


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    """Runs a short probe in this process; returns its measurements."""
    threads = torch.get_num_threads()
    try:
        assert starter.main([*SMALL, *arguments, "--out", str(folder / "runs")]) == 0
    finally:
        torch.set_num_threads(threads)
    newest = sorted((folder / "runs").iterdir())[-1]
    measured: dict[str, Any] = json.loads((newest / "measurements.json").read_text(encoding="utf-8"))
    return measured


def test_the_documented_command_works_from_any_folder(tmp_path: Path, machine_file: Path) -> None:
    done = LAB00.run(*SMALL, "--replace", cwd=tmp_path)  # a busy machine keeps nothing without it
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if not line.startswith(("kept", "note")))
    folder = tmp_path / "runs" / "lab-00-001"
    assert {file.name for file in folder.iterdir()} == {"roofline.png", "rates.png", "measurements.json"}
    assert all((folder / name).stat().st_size > 10_000 for name in ("roofline.png", "rates.png"))
    assert json.loads(machine_file.read_text())["cpu"]["peaks"]["fp32"] > 0


def test_every_operation_has_a_sentence_with_its_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = run(tmp_path)
    lines = capsys.readouterr().out.splitlines()
    names = [row["name"] for row in measured["operations"]]
    assert {"qkv", "scores", "MLP up", "head", "GELU", "LayerNorm", "AdamW"} <= set(names)
    for name in names:
        (sentence,) = [line for line in lines if line.startswith(f"{name}: ")]
        assert re.search(r"(arithmetic|memory|the call) limits it", sentence)
    for row in measured["operations"]:
        assert row["intensity"] == pytest.approx(row["flops"] / row["bytes"])


@pytest.mark.parametrize(
    ("limit", "bandwidth", "sentence"),
    [
        ("arithmetic", 10e9, "x: arithmetic limits it: 20 FLOP/B, above the ridge of 10."),
        ("memory", 1e9, "x: memory limits it: 20 FLOP/B, below the ridge of 1e+02."),
        ("the call", 1e9, "x: the call limits it, longer than its FLOPs and its bytes take."),
    ],
)
def test_a_sentence_names_intensity_and_ridge(limit: str, bandwidth: float, sentence: str) -> None:
    row = {"name": "x", "limit": limit, "bandwidth": bandwidth, "intensity": 20.0}
    assert limit_sentence(row, 100e9) == sentence


def test_costs_agree_with_the_exercises() -> None:
    learner = load(LAB.reference)
    found = {operation.name: operation.cost() for operation in gpt_operations(3, 8, 32, 4, 17, CPU)}
    products = {
        "qkv": ((24, 32), (32, 96)),
        "scores": ((12, 8, 8), (12, 8, 8)),
        "MLP down": ((24, 128), (128, 32)),
        "head": ((24, 32), (32, 17)),
    }
    for name, shapes in products.items():
        cost = learner.matmul_cost(*shapes, "fp32")
        assert found[name] == (cost.flops, cost.bytes), name
    cost = learner.elementwise_cost([(24, 32), (24, 32)], 1, "fp32")
    assert found["residual add"] == (cost.flops, cost.bytes)
    assert found["AdamW"][1] == 28 * 12 * 32**2


def test_the_longest_of_three_times_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "seconds", lambda function, at_least: 0.5)
    operations = gpt_operations(3, 8, 32, 4, 17, CPU)[:1]
    flops, moved = operations[0].cost()
    copies = {2**13: 8e3, 2**20: 4e3}
    for peak, call, limit in (
        (flops * 8, 1e-9, "memory"),
        (flops * 8, 99.0, "the call"),
        (flops / 60, 0.1, "arithmetic"),
    ):
        (row,), highest = starter.measure_operations(operations, peak, copies, call, 0.1)
        bandwidth = 8e3 if moved <= 2**13 else 4e3
        times = {"arithmetic": flops / highest, "memory": moved / bandwidth, "the call": call}
        assert (row["limit"], row["bandwidth"]) == (max(times, key=lambda name: times[name]), bandwidth)
        assert highest == max(peak, flops / 0.5)
        assert limit in times


def test_loops_and_tiles_multiply() -> None:
    a, b = (np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32) for seed in (0, 1))
    assert np.allclose(starter.loops(a.tolist(), b.tolist()), a @ b, atol=1e-4)
    assert np.allclose(starter.tiled(a, b), a @ b, atol=1e-4)


def test_fewer_bits_have_a_larger_error() -> None:
    errors = starter.product_errors(64)
    assert 0 < errors["fp32"] < errors["bf16"] < errors["int8"] < 0.02


def test_kept_rates_are_replaced_only_if_asked(
    tmp_path: Path, machine_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path)
    first = machine_file.read_bytes()
    capsys.readouterr()
    run(tmp_path)
    assert "keeps the measurement of 20" in capsys.readouterr().out
    assert machine_file.read_bytes() == first
    measured = run(tmp_path, "--replace")
    assert json.loads(machine_file.read_text())["cpu"] == measured["machine"]
    assert len(list((tmp_path / "runs").iterdir())) == 3


def test_a_busy_machine_keeps_no_rates_unless_asked(
    tmp_path: Path, machine_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(starter.psutil, "cpu_percent", lambda interval: 80.0)
    run(tmp_path)
    output = capsys.readouterr().out
    assert "other programs keep 80% of the cores busy" in output
    assert "kept    nothing: other programs ran, so rates and limits may be wrong; --replace keeps them" in output
    assert not machine_file.exists()
    run(tmp_path, "--replace")
    assert machine_file.exists()


def words_of(figure: Any) -> str:
    """Returns every word in a figure."""
    figure.canvas.draw()
    texts = figure.findobj(lambda part: isinstance(part, Text))
    return "\n".join(text.get_text() for text in texts)


@pytest.mark.parametrize(("call", "disturbed"), [(1e-6, False), (1e-4, True)])
def test_the_first_picture_says_why_a_small_product_is_slow(call: float, disturbed: bool) -> None:
    """Products that take 1.5 µs more than their arithmetic at 1 TFLOP/s, and a call that took longer or not."""
    products = {width: 2 * width**3 / (1.5e-6 + 2 * width**3 / 1e12) for width in (16, 32, 64, 128, 256, 512)}
    row = {"name": "32 wide", "intensity": 5.3, "rate": products[32], "limit": "the call", "share": 0.9}
    words = words_of(plot_roofline(products, 1e12, 1e10, 1e11, call, [row, row | {"name": "GELU", "share": 1.5}]))
    assert "Why is a small matrix product slow? Its call takes longer than its arithmetic." in words
    assert "A product of 16 × 16 numbers takes 1.51 µs; its arithmetic needs 0.0082 µs." in words
    assert "matrix product 32 × 32" in words
    assert "GELU: above the roof, so this run measured the roof too low." in words
    assert ("other programs disturbed these times" in words) == disturbed


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        starter.main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert all(
        option in text for option in ("--max-width", "--max-mib", "--seconds", "--threads", "--replace", "--out")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--frobnicate"], "unknown option --frobnicate"),
        (["--thread", "1"], "unknown option --thread: did you mean --threads?"),
        (["--max-width", "0"], "--max-width: '0' must be a whole number of at least 1"),
        (["--seconds", "-1"], "--seconds: '-1' must be a number above 0"),
        (["--hidden-dim", "30", "--heads", "4"], "--hidden-dim 30 does not divide into --heads 4"),
        (["--device", "tpu"], "device 'tpu' is not known"),
        (["--out", "x" * 300], "cannot write to"),
        (["--hidden-dim", "1000000000000", "--heads", "1"], "out of memory: use a smaller --batch-size"),
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
    assert message in LAB00.fails(arguments, capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.real
@pytest.mark.parametrize(("number", "code", "name"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")])
def test_a_signal_ends_the_run_and_leaves_nothing(
    number: int, code: int, name: str, tmp_path: Path, machine_file: Path
) -> None:
    command = [sys.executable, str(LAB.starter), "--threads", "1", "--seconds", "60", "--device", "cpu"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "RANKZERO_MACHINE": str(machine_file)}
    with cold_starts():
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("run "):
        assert line, process.communicate(timeout=LONG_S)
    process.send_signal(number)
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == code
    assert err.strip() == f"Stopped by {name} at once: files that were saved before are kept."
    assert list((tmp_path / "runs").iterdir()) == []
    assert not machine_file.exists()
