"""Triage of the clinic: it finds the causes of the patients, and raises no alarm on cures and on the labs' starters."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rankzero.curriculum import all_labs, find_lab
from rankzero.errors import UserError
from rankzero.triage.causes import CAUSES
from rankzero.triage.judge import judge
from rankzero.triage.process import run

CLINIC = find_lab("16")
PATIENTS = {file.stem[-2:]: file for file in sorted(CLINIC.folder.glob("patients/patient_*.py"))}
DIAGNOSES = tomllib.loads((CLINIC.solutions / "diagnoses.toml").read_text(encoding="utf-8"))
OFTEN = ("03", "13", "24")  # patients and cures of `make test`, and a starter; `make prove` runs all

# Replaces the function `train` of a patient by its cure.
CURE = """import importlib.util, sys
spec = importlib.util.spec_from_file_location("cures", {file!r})
sys.modules["cures"] = cures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cures)
train = cures.cure_{number}


if __name__ =="""
SMALL = ("--hidden-dim", "32", "--layers", "2", "--heads", "2", "--block-size", "32", "--batch-size", "8")
TRAINS = (*SMALL, "--steps", "40", "--eval-every", "20")
STARTERS = {
    "01": ("--device", "cpu", *SMALL[:6], "--batch-size", "2", "--seq-len", "32"),
    "02": TRAINS,
    "03": (*TRAINS, "--precision", "fp16"),
    "04": (*TRAINS, "--micro-batch", "3", "--clip", "1.0"),
    "05": TRAINS,
    "06": SMALL,
    "07": TRAINS,
    "08": TRAINS,
    "09": (*SMALL, "--steps", "40"),
    "10": ("--epochs", "3"),
    "11": ("--steps", "20", "--backend", "eager"),
    "15": ("--trials", "3", "--tokens", "16384"),
}
NO_MODULES = ("00", "14")  # starters that train no PyTorch module
SICK = ("16",)


def causes(file: Path, *arguments: str) -> list[str]:
    """Returns the causes that triage finds in a run of a script."""
    done = run(file, arguments, 200.0, lambda line: None)
    if not any(record.models or record.failure for record in done.records):
        raise UserError(f"{file} left no record; it ended with {done.last_line!r}.")
    assert not [record.trouble for record in done.records if record.trouble], "an observer has failed"
    return judge(done.records).causes()


def often(numbers: Sequence[str]) -> list[Any]:
    """Returns parameters of a test, of which `make test` takes a few."""
    return [number if number in OFTEN else pytest.param(number, marks=pytest.mark.prove) for number in numbers]


@pytest.mark.parametrize("number", often(list(PATIENTS)))
def test_the_cause_of_a_patient_is_named_first(number: str) -> None:
    assert causes(PATIENTS[number])[:1] == [DIAGNOSES[number]["cause"]]


@pytest.mark.parametrize("number", often(list(PATIENTS)))
def test_a_cured_patient_raises_no_alarm(number: str, tmp_path: Path) -> None:
    # On the device `meta` a loss has no number that could be printed.
    source = PATIENTS[number].read_text(encoding="utf-8").replace("{loss:.4f}", "{loss}")
    assert source.count("if __name__ ==") == 1
    cured = tmp_path / f"cured_{number}.py"
    cured.write_text(source.replace("if __name__ ==", CURE.format(file=str(CLINIC.reference), number=number)))
    assert causes(cured) == []


@pytest.mark.parametrize("number", often(list(STARTERS)))
def test_a_starter_raises_no_alarm(number: str, tmp_path: Path) -> None:
    assert causes(find_lab(number).starter, *STARTERS[number], "--out", str(tmp_path)) == []


def test_every_starter_is_tried() -> None:
    numbers = {lab.number for lab in all_labs()}
    assert numbers == {*STARTERS, *NO_MODULES, *SICK}


def test_every_diagnosis_is_a_cause_that_triage_knows() -> None:
    assert set(DIAGNOSES) == set(PATIENTS)
    for number, diagnosis in DIAGNOSES.items():
        assert {diagnosis["cause"], *diagnosis["fine"]} <= set(CAUSES), number


def test_the_time_of_observers_is_no_time_of_the_script() -> None:
    (record,) = run(PATIENTS["07"], (), 200.0, lambda line: None).records
    waits = [step.wait_s for step in record.models[0].steps if step.wait_s is not None]
    assert len(waits) > 30
    assert min(waits) >= 0
