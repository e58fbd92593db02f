"""Tracking in MLflow: what a tracked run leaves in the store, however it ends."""

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import draft_labs
import pytest
from starters import LONG_S, TINY, Starter, losses
from warm_process import cold_starts

from rankzero.learn.runs.plots import read_log
from rankzero.learn.runs.tracking import numbers_of

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
LAB02 = Starter("02")
TRACKED = ("--device", "cpu", "--track", "mlflow")


class Store:
    """A store of MLflow, and tiny runs of Lab 02 that are tracked in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def train(self, *arguments: str) -> Path:
        return LAB02.train(self.folder, *TRACKED, *arguments)

    def runs(self) -> dict[str, Any]:
        """Returns MLflow's runs by name."""
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient(tracking_uri=f"sqlite:///{self.folder / 'runs' / 'mlflow.db'}")
        experiments = [experiment.experiment_id for experiment in self.client.search_experiments()]
        return {run.info.run_name: run for run in self.client.search_runs(experiments)}

    def metric(self, run: Any, name: str) -> list[tuple[int, float]]:
        """Returns step and value of a metric, in the order of the steps."""
        return sorted((entry.step, entry.value) for entry in self.client.get_metric_history(run.info.run_id, name))

    def files(self, run: Any, folder: str) -> set[str]:
        return {Path(file.path).name for file in self.client.list_artifacts(run.info.run_id, folder)}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One store for all tests: making its tables takes seconds."""
    return Store(tmp_path_factory.mktemp("tracked"))


@pytest.mark.prove
def test_a_tracked_run_has_parameters_the_logs_metrics_and_files(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = store.train("--steps", "6", "--eval-every", "3", "--lr", "0.002")
    out, err = capfd.readouterr()
    run, log = store.runs()[folder.name], read_log(folder / "log.jsonl")
    assert run.info.status == "FINISHED"
    assert (run.data.params["lr"], run.data.params["steps"], run.data.params["corpus"]) == ("0.002", "6", "embedded")
    assert store.metric(run, "loss") == losses(folder)
    assert store.metric(run, "lr") == [(event["step"], event["lr"]) for event in log["step"]]
    assert store.metric(run, "val_loss") == [(event["step"], event["val_loss"]) for event in log["eval"]]
    assert store.metric(run, "memory.resident")
    assert store.files(run, folder.name) == {"curves.png", "log.jsonl"}
    assert f"tracked as {folder.name}, FINISHED: mlflow ui --backend-store-uri sqlite:///" in out
    assert "mlflow" not in err.lower(), "MLflow prints nothing of its own"


@pytest.mark.prove
def test_a_resumed_run_goes_on_in_the_same_run_of_mlflow(store: Store) -> None:
    first = store.train("--steps", "4", "--eval-every", "2", "--seed", "5")
    before = len(store.runs())
    second = store.train("--resume", str(first / "checkpoint.pt"), "--steps", "8")
    runs = store.runs()
    assert len(runs) == before
    assert store.metric(runs[first.name], "loss") == losses(first) + losses(second)
    assert runs[first.name].data.params["steps"] == "4"
    assert runs[first.name].data.tags["resumed.steps"] == "8"
    assert store.files(runs[first.name], second.name) == {"curves.png", "log.jsonl"}


@pytest.mark.prove
def test_a_run_that_fails_is_failed_in_mlflow(store: Store) -> None:
    with pytest.raises(SystemExit):
        store.train("--steps", "60", "--lr", "1e30")
    (run,) = [run for run in store.runs().values() if run.data.params["lr"] == "1e+30"]
    assert run.info.status == "FAILED"


@pytest.mark.prove
def test_a_run_that_a_signal_ends_is_killed_in_mlflow(store: Store) -> None:
    command = [sys.executable, "-u", str(LAB02.lab.starter), *TINY, *TRACKED, "--steps", "100000"]
    with cold_starts():
        process = subprocess.Popen(command, cwd=store.folder, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step    50/"):
                process.send_signal(signal.SIGTERM)
                break
        rest, _ = process.communicate(timeout=LONG_S)
    name = rest.split("tracked as ")[1].split(",")[0]
    assert store.runs()[name].info.status == "KILLED"


@pytest.mark.prove
def test_of_several_ranks_one_tracks(store: Store) -> None:
    lab07 = Starter("07")
    folder = lab07.train(store.folder, *TRACKED, "--steps", "4", "--ranks", "2")
    (run,) = [run for name, run in store.runs().items() if name.startswith("lab-07")]
    assert run.info.status == "FINISHED"
    assert store.metric(run, "loss") == losses(folder)


def test_without_mlflow_a_run_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mlflow" else find_spec(name))
    for number in ("01", "02"):
        sentence = Starter(number).fails(["--track", "mlflow", "--out", str(tmp_path / "runs")], capfd)
        assert "--track mlflow needs MLflow, which is not installed: install it with" in sentence
    assert not (tmp_path / "runs").exists(), "before any work"


@pytest.mark.prove
def test_a_store_that_cannot_be_used_ends_no_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mlflow.db").write_text("no database " * 1000)
    folder = LAB02.train(tmp_path, *TRACKED, "--steps", "2")
    assert len(losses(folder)) == 2
    assert "--track mlflow has stopped, and the run goes on: " in capfd.readouterr().err


def test_numbers_of_an_event() -> None:
    window = {"event": "window", "step": 3, "loss": 1.0, "step_ms": 2, "memory": {"peak": 5}, "busy_ms": [1.0, 2.0]}
    expected = [("step_ms", 2.0), ("memory.peak", 5.0), ("busy_ms.0", 1.0), ("busy_ms.1", 2.0)]
    assert list(numbers_of(window)) == expected
    assert list(numbers_of({"event": "step", "step": 1, "loss": 1.5, "skipped": True})) == [("loss", 1.5)]


WITHOUT = ("11", "16")  # drafts that do without this option
TRAINING = [lab.number for lab in draft_labs.tested_labs() if lab.number not in WITHOUT]


@pytest.mark.parametrize("number", TRAINING)
def test_every_starter_has_the_option(number: str) -> None:
    module = Starter(number).module
    parser: argparse.ArgumentParser = module.make_parser()
    assert parser.parse_args(["--track", "mlflow"]).track == "mlflow"
    assert parser.parse_args([]).track is None
