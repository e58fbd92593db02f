"""Runs of a lab's training starter, for the tests of each lab."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from agents import free_port
from warm_process import run_script

from rankzero.curriculum import find_lab
from rankzero.learn.runs.plots import read_log

LONG_S = 300.0  # limit of a process that ends by itself
TINY = ("--hidden-dim", "32", "--layers", "1", "--heads", "2", "--block-size", "16", "--batch-size", "4")


def losses(run_folder: Path) -> list[tuple[int, float]]:
    """Returns step and loss of every step that a run has logged."""
    return [(event["step"], event["loss"]) for event in read_log(run_folder / "log.jsonl")["step"]]


def import_starter(number: str) -> ModuleType:
    """Imports the lab's starter. Functions for ranks call this: they are sent by value, but a module cannot be."""
    return find_lab(number).import_starter()


class Starter:
    """The starter of one lab."""

    def __init__(self, number: str) -> None:
        self.lab = find_lab(number)
        self.module = self.lab.import_starter()

    def run(self, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        """Runs the starter as a process in `cwd`."""
        return run_script(self.lab.starter, *arguments, cwd=cwd)

    def run_as_ranks(self, ranks: int, *arguments: str, cwd: Path) -> "list[subprocess.CompletedProcess[str]]":
        """Runs the starter as `ranks` processes in `cwd`, with the variables that torchrun sets."""
        world = {
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(free_port()),
        }
        with ThreadPoolExecutor(ranks) as pool:
            started = [
                pool.submit(
                    run_script,
                    self.lab.starter,
                    *arguments,
                    cwd=cwd,
                    environment=world | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                )
                for rank in range(ranks)
            ]
        return [process.result() for process in started]

    def train(self, folder: Path, *arguments: str) -> Path:
        """Trains a tiny model in this process; returns the run's folder."""
        before = set(folder.glob("runs/lab-*"))
        assert self.module.main([*TINY, *arguments, "--out", str(folder / "runs")]) == 0
        (run_folder,) = set(folder.glob("runs/lab-*")) - before
        return run_folder

    def fails(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
        """Starts the starter, which must end with exit code 2, and returns the sentence that it prints on stderr."""
        with pytest.raises(SystemExit) as stopped:
            self.module.main(arguments)
        output = capsys.readouterr()
        assert stopped.value.code == 2
        assert output.out == ""
        assert output.err.count("\n") == 1
        return output.err
