"""Claims of labs/lab-16-debugging-clinic.md."""

import argparse
import functools
import tempfile
from pathlib import Path
from typing import Any

import torch

from rankzero.claims.chart import Chart, Charted, Point
from rankzero.claims.claim import claim
from rankzero.claims.toolkit.starters import starter
from rankzero.learn.runs.twin_report import Case, Run, number_of

SETTINGS = argparse.Namespace(seed=0, device="cpu", quick=False)
POINTS = 40  # of a curve, at most
APART = 1.1  # the ratio of two numbers that differ clearly


def line(values: list[float]) -> list[Point]:
    """At most POINTS values of a series, among them the first and the last, by their number from 1 on."""
    every = -(-len(values) // (POINTS - 1))
    places = sorted({*range(0, len(values), every), len(values) - 1})
    return [(place + 1, values[place], values[place], values[place]) for place in places]


@functools.cache
def ward() -> list[Case]:
    """All patients, each beside its healthy twin."""
    clinic = starter("16")
    torch.set_num_threads(1)  # a second thread makes such small models slower
    cases, patience = [], clinic.PATIENCE_S
    first = "15"  # later, its memory would be memory that other patients have given back
    with tempfile.TemporaryDirectory() as folder:
        for number in (first, *(number for number in clinic.PATIENTS if number != first)):
            clinic.PATIENCE_S = patience if number == "23" else 60.0  # a busy machine is no hang
            cases.append(clinic.examine(number, SETTINGS, Path(folder)))
    clinic.PATIENCE_S = patience
    assert [case.number for case in cases if case.ill.error] == ["17", "18", "19", "20", "23"]
    return sorted(cases, key=lambda case: case.number)


def is_ill(case: Case) -> bool:
    """Tells whether the patient's number differs clearly from its twin's, or whether only the patient fails."""
    if case.ill.error or case.healthy.error:
        return bool(case.ill.error) and not case.healthy.error
    ill, healthy = (number_of(run, case.symptom) for run in (case.ill, case.healthy))
    assert ill is not None
    assert healthy is not None
    low, high = sorted((ill, healthy))
    return high > APART * low


@claim(
    "lab-16-ward",
    "Each of the {expected[silent]} silent patients, {expected[loud]} loud patients and {expected[of ranks]} patients "
    "of several ranks differs clearly from its healthy twin. {expected[equal first loss]} of the silent patients "
    "begin with the twin's first loss, and the training loss of {expected[loss falls]} silent patients falls.",
    expected={"silent": 16, "loud": 4, "of ranks": 4, "equal first loss": 11, "loss falls": 13},
    unit="patients",
)
def lab_ward() -> Charted:
    """Runs every patient and its twin with seed 0 and compares the numbers of their complaints.

    Two numbers differ clearly if the larger is more than 1.1 times the smaller; a loud patient raises an error where
    its twin does not. A loss falls if the mean of its last tenth is more than 5 % below the mean of its first three.
    """
    cases, lines = ward(), {}
    for case in cases:
        for who, run in (("patient", case.ill), ("healthy", case.healthy)):
            for rank, log in enumerate(run.logs):
                if values := log.get(case.symptom[0]):
                    lines[f"{case.number} {who} {rank}"] = line(values)
    silent = [case for case in cases if case.number <= "16"]
    losses = [(case.ill.logs[0]["loss"], case.healthy.logs[0]["loss"]) for case in silent]
    counts = {
        "silent": sum(map(is_ill, silent)),
        "loud": sum(is_ill(case) for case in cases if "16" < case.number <= "20"),
        "of ranks": sum(is_ill(case) for case in cases if case.number > "20"),
        "equal first loss": sum(abs(ill[0] - healthy[0]) < 1e-6 for ill, healthy in losses),
        "loss falls": sum(falls(ill) for ill, _ in losses),
    }
    return Charted(counts, Chart("the ward", "step", "the number of the complaint", lines))


def falls(losses: list[float]) -> bool:
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last) < 0.95 * sum(losses[:3]) / 3


@claim(
    "lab-16-one-model-for-both",
    "A twin of patient 07 that gets the patient's model begins at a loss of {expected[first, used model]:.2f} instead "
    "of {expected[first, new model]:.2f}, and ends at {expected[last, used model]:.2f} instead of {expected[last, new "
    "model]:.2f}.",
    expected={
        "first, new model": 2.313,
        "first, used model": 2.053,
        "last, new model": 0.478,
        "last, used model": 0.316,
    },
    tolerance=0.05,
    unit="nats",
)
def one_model_for_both() -> Charted:
    """Trains patient 07, then its twin with the same arguments, then a twin with arguments that are made again."""
    clinic, lines, values = starter("16"), {}, {}
    used: dict[str, Any] = clinic.setup_of("07", 0, "cpu", False)
    patient = clinic.patient_module("07").train(**used)
    cure = clinic.cure_of("07")
    twins = {"used model": cure(**used), "new model": cure(**clinic.setup_of("07", 0, "cpu", False))}
    lines["patient"] = line(patient["loss"])
    for name, log in twins.items():
        lines[name] = line(log["loss"])
        values[f"first, {name}"] = log["loss"][0]
        values[f"last, {name}"] = number_of(Run([log]), ("loss", "end"))
    return Charted(values, Chart("twins of patient 07", "step", "loss, nats", lines))
