"""Starter of Lab 15: trials of equal budgets, one study for several processes, and mistakes in one sentence."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
from starters import Starter

from rankzero.learn.runs.plots import read_log
from rankzero.learn.runs.stop_request import StopRequest
from rankzero.learn.search.shared_study import is_alive, this_process
from rankzero.learn.search.trial_report import records, share_saved

LAB15 = Starter("15")
starter, fails = LAB15.module, LAB15.fails
# Trials of a few steps: a width of 8, sequences of 8 tokens.
QUICK = ("--device=cpu", "--hidden-dim=8", "--layers=1", "--heads=1", "--block-size=8", "--tokens=4096")


def study_in(storage: Path) -> optuna.Study:
    return optuna.load_study(study_name="search", storage=f"sqlite:///{storage}")


def new_run(tmp_path: Path, *arguments: str) -> Any:
    run = starter.Run(starter.make_parser().parse_args([*QUICK, *arguments]))
    run.open_study(tmp_path / "study.db")
    return run


def states(study: optuna.Study) -> list[str]:
    return [trial.state.name for trial in study.trials]


# ------------------------------------------------------------------------------------------------------------- the run
def test_a_search_trains_reports_compares_and_draws(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert starter.main([*QUICK, "--trials=8", f"--out={tmp_path}"]) == 0
    out = capfd.readouterr().out
    (folder,) = tmp_path.glob("lab-15-*")
    study = study_in(folder / "study.db")
    trials = records(study.trials)
    assert len(trials) == 8
    assert trials[0]["parameters"]["lr"] == 1e-3, "the settings to beat are the first trial"
    for record in trials:
        assert record["state"] in ("complete", "pruned")
        assert record["seed"] == 0
        assert list(record["training"]) == [512 * count for count in range(1, len(record["training"]) + 1)]
        if record["state"] == "complete":
            assert len(record["validation"]) == 8, "equal budgets, whatever the batch size"
        else:
            assert max(record["validation"]) >= 1024, "no trial is pruned in its first quarter"
    assert out.count("complete") + out.count("pruned") >= 8
    assert f"pruning saved {share_saved(trials, 4096):.0%} of their tokens" in out
    assert "default  mean" in out
    assert "best     mean" in out
    pictures = {file.name for file in folder.glob("*.png")}
    assert pictures == {"curves.png", "optimization_history.png", "parallel_coordinate.png", "param_importances.png"}
    log = read_log(folder / "log.jsonl")
    assert [event["step"] for event in log["step"]] == list(range(1, len(log["step"]) + 1))
    assert len(log["step"]) == sum(len(record["training"]) for record in trials)


def test_the_same_command_goes_on_with_a_study(tmp_path: Path) -> None:
    storage = tmp_path / "study.db"
    for trials, number in ((2, 1), (4, 2)):
        command = [*QUICK, f"--trials={trials}", f"--storage={storage}", f"--out={tmp_path}"]
        assert starter.main(command) == 0
        assert len(study_in(storage).trials) == trials
        assert (tmp_path / f"lab-15-00{number}").is_dir()


@pytest.mark.prove
def test_a_study_that_was_interrupted_between_trials_has_the_trials_of_one_that_was_not(tmp_path: Path) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = new_run(tmp_path / "whole", "--trials=7")
    starter.search(whole, tmp_path / "whole" / "study.db", StopRequest())
    for trials in ("3", "7"):
        parts = new_run(tmp_path / "parts", f"--trials={trials}")
        starter.search(parts, tmp_path / "parts" / "study.db", StopRequest())
    assert records(parts.study.trials) == records(whole.study.trials)


# ---------------------------------------------------------------------------------------------- processes that are gone
def test_a_trial_of_a_dead_process_is_run_again_and_one_of_a_living_process_is_not(tmp_path: Path) -> None:
    run, storage = new_run(tmp_path), tmp_path / "study.db"
    dead = starter.next_trial(run.study, storage, 3, 0)
    setting = starter.suggest(dead)
    machine, number, started = this_process()
    dead.set_user_attr("process", [machine, number, started - 1])  # an earlier process with this number
    alive = starter.next_trial(run.study, storage, 3, 0)
    assert alive.user_attrs["again"] == dead.number
    assert starter.suggest(alive) == setting
    assert states(run.study) == ["FAIL", "RUNNING"]
    other = starter.next_trial(run.study, storage, 3, 0)
    assert "again" not in other.user_attrs
    assert states(run.study) == ["FAIL", "RUNNING", "RUNNING"]


def test_a_trial_without_a_process_was_killed_as_it_began(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.study.ask()
    starter.next_trial(run.study, tmp_path / "study.db", 3, 0)
    assert states(run.study)[0] == "FAIL"


def test_a_trial_is_handed_back_once(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    trial = starter.next_trial(run.study, tmp_path / "study.db", 3, 0)
    starter.suggest(trial)
    run.study.enqueue_trial(trial.params, user_attrs={"again": trial.number})  # and here a kill came
    starter.hand_back(run.study, run.study.trials[trial.number])
    assert states(run.study) == ["FAIL", "WAITING"]


def test_no_more_trials_start_than_are_asked_for(tmp_path: Path) -> None:
    run, storage = new_run(tmp_path), tmp_path / "study.db"
    started = [starter.next_trial(run.study, storage, 2, 0) for _ in range(3)]
    assert [trial is not None for trial in started] == [True, True, False]


def test_a_process_is_known_by_its_start_time_too() -> None:
    machine, number, started = this_process()
    assert is_alive([machine, number, started])
    assert not is_alive([machine, number, started + 1])
    assert not is_alive([machine, 2**22 + 1, started])
    assert is_alive(["another machine", 1, 0.0])
    assert not is_alive(None)


@pytest.mark.prove
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_hands_the_trial_back_and_the_next_run_takes_it(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(LAB15.lab.starter), "--device=cpu", "--tokens=16384", "--trials=3"]
    command += ["--storage=study.db", "--workers=2"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("    0  complete"):
                break
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)  # as Slurm does, or Docker: to the first process alone
        out, _ = process.communicate(timeout=240)
    assert process.returncode == 128 + number
    assert "the trial under way is handed back. Go on with" in out
    before = states(study_in(tmp_path / "study.db"))
    assert "RUNNING" not in before
    assert before.count("WAITING") <= before.count("FAIL")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=True)
    after = records(study_in(tmp_path / "study.db").trials)
    assert sum(record["state"] in ("complete", "pruned") for record in after) == 3, done.stderr
    assert all(record["state"] in ("complete", "pruned", "failed") for record in after)


@pytest.mark.prove
@pytest.mark.parametrize("slug", ["lab-15-killed-and-resumed", "lab-15-killed-worker"])
def test_a_killed_process_loses_and_doubles_no_trial(slug: str) -> None:
    from rankzero.claims.registry import find_claim

    claim = find_claim(slug)
    assert claim.holds(claim.measure())


# ------------------------------------------------------------------------------------------------------------ mistakes
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens=1000"], "--tokens 1000 must be a multiple of 16384, and"),
        (["--batch-size=12"], "and --batch-size 12 one of [8, 16, 32, 64]."),
        (["--trials=0"], "--trials: '0' must be a whole number of at least 1"),
        (["--join"], "--join adds trials to a study: name its file with --storage, which is None now."),
        (["--join", "--storage=nowhere.db"], "name its file with --storage, which is nowhere.db now."),
        (["--storage=nowhere/study.db"], "cannot write to nowhere/study.db (No such file or directory)"),
        (["--storage=text.db"], "text.db is no study of Optuna (file is not a database)"),
        (["--trial=3"], "unknown option --trial=3: did you mean --trials?"),
        (["--corpus=nowhere.txt"], "nowhere.txt does not exist"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_input_gets_one_sentence(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.db").write_text("text " * 1000)
    assert message in fails(["--device=cpu", *arguments], capfd)


def test_trials_of_another_budget_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    new_run(tmp_path)
    sentence = fails([*QUICK, "--tokens=8192", "--storage=study.db"], capfd)
    assert "the trials in study.db have tokens 4096, and new ones would have 8192: give --tokens 4096" in sentence


def test_a_trial_that_diverges_is_pruned(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    trial = starter.next_trial(run.study, tmp_path / "study.db", 1, 0)
    run.loss_of = lambda model, text: float("nan")
    starter.run_trial(run, trial, StopRequest())
    assert states(run.study) == ["PRUNED"]
    assert json.loads(json.dumps(records(run.study.trials)))[0]["validation"] == {}
