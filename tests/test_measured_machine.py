"""The rates that Lab 00 keeps: where they lie, when they count, and what the plan and the meter make of them."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from rankzero.cli import app as cli
from rankzero.errors import UserError
from rankzero.learn.machine.device import device_name
from rankzero.learn.machine.measured_machine import (
    MeasuredMachine,
    keep_measurement,
    kept_peak,
    measured_machine,
)
from rankzero.learn.machine.peak_flops import reference_peak
from rankzero.learn.runs import step_meter
from rankzero.learn.runs.plots import read_log
from rankzero.learn.runs.step_meter import StepMeter

CPU = torch.device("cpu")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache" / "machine.json"
    monkeypatch.setenv("RANKZERO_MACHINE", str(path))
    return path


@pytest.fixture
def machine() -> MeasuredMachine:
    peaks = {"fp32": 5e10, "bf16": 2e11}
    return MeasuredMachine("cpu", device_name(CPU), "2026-11-23T20:00:00+00:00", peaks, 2e10, 2e-6, 64 * 10**9, {})


def plan(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["plan", *arguments, "--hardware", "measured"])
    return result.exit_code, " ".join(result.output.split())


def test_a_measurement_is_kept_and_read_again(file: Path, machine: MeasuredMachine) -> None:
    assert str(file) in keep_measurement(machine, replace=False)
    assert measured_machine(CPU) == machine
    assert kept_peak(CPU) == (5e10, "2026-11-23")
    assert kept_peak(CPU, torch.bfloat16) == (2e11, "2026-11-23")
    assert kept_peak(CPU, torch.float16) is None, "not measured in this dtype"


def test_an_earlier_measurement_is_replaced_only_if_asked(file: Path, machine: MeasuredMachine) -> None:
    keep_measurement(machine, replace=False)
    later = replace(machine, bandwidth=3e10, date="2026-12-01T00:00:00+00:00")
    assert "keeps the measurement of 2026-11-23; --replace" in keep_measurement(later, replace=False)
    assert measured_machine(CPU) == machine
    keep_measurement(later, replace=True)
    assert measured_machine(CPU) == later


def test_another_device_has_a_place_of_its_own(file: Path, machine: MeasuredMachine) -> None:
    keep_measurement(machine, replace=False)
    keep_measurement(replace(machine, kind="cuda", name="NVIDIA H200"), replace=False)
    assert set(json.loads(file.read_text())) == {"cpu", "cuda"}
    assert measured_machine(CPU) == machine


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"cpu": {}}', '{"cpu": 3}', "rate", "peaks"])
def test_a_missing_or_damaged_file_gets_one_sentence(damage: str, file: Path, machine: MeasuredMachine) -> None:
    keep_measurement(machine, replace=False)
    table = json.loads(file.read_text())
    if damage == "rate":
        table["cpu"]["bandwidth"] = 0
    if damage == "peaks":
        table["cpu"]["peaks"] = {"bf16": "fast"}
    file.write_text(json.dumps(table) if damage in ("rate", "peaks") else damage)
    with pytest.raises(UserError, match=r"(is not measured|is damaged).*measure it with `rankzero run 00`"):
        measured_machine(CPU)
    assert kept_peak(CPU) is None
    code, output = plan("gpt2")
    assert (code, "`rankzero run 00`" in output) == (2, True)


def test_a_measurement_of_another_machine_does_not_count(file: Path, machine: MeasuredMachine) -> None:
    keep_measurement(replace(machine, name="another CPU, 64 threads"), replace=False)
    with pytest.raises(
        UserError, match=r"measured on another machine \(another CPU, 64 threads; this one is .*--replace"
    ):
        measured_machine(CPU)
    assert kept_peak(CPU) is None


def test_a_file_that_cannot_be_written_gets_one_sentence(
    machine: MeasuredMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKZERO_MACHINE", "/dev/null/machine.json")
    with pytest.raises(UserError, match=r"cannot keep the measurement in /dev/null/machine.json .*RANKZERO_MACHINE"):
        keep_measurement(machine, replace=True)


def test_plan_takes_the_measured_rates(file: Path, machine: MeasuredMachine) -> None:
    keep_measurement(machine, replace=False)
    code, output = plan("gpt2", "--recipe", "fp32", "--seq", "64")
    assert code == 0, output
    assert "products at 100% of the peak, rates measured by Lab 00 on 2026-11-23" in output
    code, text = plan("gpt2", "--recipe", "fp32", "--seq", "64", "--json")
    planned = json.loads(text)
    assert planned["hardware"]["peaks"] == [5e10, 5e10, 2e11]
    assert planned["time"]["parts"]["compute"] == pytest.approx(planned["flops"]["model"] / 5e10)


def test_plan_of_several_ranks_and_of_too_large_a_model(file: Path, machine: MeasuredMachine) -> None:
    keep_measurement(replace(machine, memory=10**9), replace=False)
    code, output = plan("gpt2", "--shard", "2")
    assert (code, "links are not measured: plan 2 ranks" in output) == (2, True), output
    code, output = plan("llama-3-8b")
    assert (code, "NOTHING FITS on this device" in output) == (0, True), output


def test_the_meter_divides_by_the_measured_peak(
    file: Path, machine: MeasuredMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(step=0.25)
    monkeypatch.setattr(step_meter, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    keep_measurement(machine, replace=False)
    sizes = {"first_step": 0, "last_step": 2, "tokens_per_step": 100, "flops_per_token": 10**6}
    with StepMeter(tmp_path / "log.jsonl", device=CPU, **sizes) as meter:  # type: ignore[arg-type]
        for _ in range(2):
            meter.step(torch.tensor(1.0), 0.1)
    for window in read_log(tmp_path / "log.jsonl")["window"]:
        assert window["mfu"] == pytest.approx(window["tokens_per_s"] * 10**6 / 5e10)


def test_a_utilization_says_that_its_peak_was_measured(file: Path, machine: MeasuredMachine) -> None:
    keep_measurement(machine, replace=False)
    assert reference_peak(CPU) == (5e10, "measured by Lab 00 on 2026-11-23")
    assert reference_peak(CPU, 7e9) == (7e9, "given")
