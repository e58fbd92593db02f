"""Small parts of the library: options of starters, predictions, plots and the import of torchvision."""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from rankzero.learn.profiling.memory import PhaseRow
from rankzero.learn.runs.options import (
    StarterParser,
    non_negative_float,
    non_negative_int,
    positive_float,
    positive_int,
)
from rankzero.learn.runs.plots import plot_learning_rate, plot_phases, plot_run
from rankzero.learn.runs.predictions import answered, compare


def parser() -> argparse.ArgumentParser:
    options = StarterParser(prog="train.py")
    options.add_argument("--steps", type=positive_int, default=3, help="steps")
    options.add_argument("--seed", type=non_negative_int)
    options.add_argument("--lr", type=positive_float)
    options.add_argument("--clip", type=non_negative_float)
    return options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "-3"], "train.py: --steps: '-3' must be a whole number of at least 1.\n"),
        (["--steps", "2.5"], "train.py: --steps: '2.5' must be a whole number of at least 1.\n"),
        (["--steps", "0"], "train.py: --steps: '0' must be a whole number of at least 1.\n"),
        (["--steps", "many"], "train.py: --steps: 'many' must be a whole number of at least 1.\n"),
        (["--seed", "-1"], "train.py: --seed: '-1' must be a whole number of at least 0.\n"),
        (["--seed", str(2**64)], f"train.py: --seed: '{2**64}' must be a whole number of at most 1000000000000.\n"),
        (["--lr", "0"], "train.py: --lr: '0' must be a number above 0 and at most 1e38.\n"),
        (["--lr", "nan"], "train.py: --lr: 'nan' must be a number above 0 and at most 1e38.\n"),
        (["--lr", "inf"], "train.py: --lr: 'inf' must be a number above 0 and at most 1e38.\n"),
        (["--clip", "-1"], "train.py: --clip: '-1' must be a number of at least 0 and at most 1e38.\n"),
        (["--clip", "inf"], "train.py: --clip: 'inf' must be a number of at least 0 and at most 1e38.\n"),
        (["--lr"], "train.py: --lr: expected one argument\n"),
        (["--step", "3"], "train.py: unknown option --step: did you mean --steps?\n"),
        (["--frobnicate"], "train.py: unknown option --frobnicate: --help lists the options.\n"),
        (["stray"], "train.py: unknown option stray: --help lists the options.\n"),
    ],
)
def test_a_bad_option_gets_one_sentence(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parser().parse_args(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == message


def test_help_shows_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--help"])
    assert "(default: 3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("prediction", "measured", "message"),
    [
        (808_064, 808_064, "you said 808,064, measured 808,064 nats: right within 1 %."),
        (2, 4.0, "you said 2, measured 4 nats: 2 times too low."),
        (9, 4.5, "you said 9, measured 4.5 nats: 2 times too high."),
        (-1, 4.0, "you said -1, measured 4 nats: another sign, or zero."),
        (0, 4.0, "you said 0, measured 4 nats: another sign, or zero."),
        (0, 0.0, "right within 1 %"),
    ],
)
def test_a_prediction_is_compared_by_its_factor(
    prediction: object, measured: float, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(prediction, measured, "nats")
    assert message in capsys.readouterr().out


@pytest.mark.parametrize("prediction", [None, "4", float("nan"), True])
def test_a_measurement_is_not_shown_before_its_prediction(
    prediction: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not answered(1.5, prediction)
    compare(prediction, 4.53, "nats", of="the first loss")
    expected = "the first loss: no prediction yet. Replace None above by a number of nats, then run this cell again.\n"
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("unit", "asked"),
    [
        ("of the highest rate", "a fraction of the highest rate"),
        ("times", "a factor"),
        ("%", "a percentage"),
        ("power of ten", "a power of ten"),
    ],
)
def test_every_unit_is_asked_for_in_a_sentence(unit: str, asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    compare(None, 4.53, unit)
    assert f"Replace None above by {asked}, then run" in capsys.readouterr().out


def test_plots_show_the_values_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(
        '{"event": "run"}\n'
        '{"event": "step", "step": 1, "loss": 4.5, "lr": 0.1}\n'
        '{"event": "step", "step": 2, "loss": 4.0, "lr": 0.2}\n'
        '{"event": "window", "step": 2, "tokens_per_s": 100.0}\n'
        '{"event": "eval", "step": 2, "val_loss": 4.2}\n'
    )
    loss, throughput = plot_run(log).axes
    (rate,) = plot_learning_rate(log).axes
    drawn = [[np.asarray(line.get_xydata()).tolist() for line in axes.lines] for axes in (loss, throughput, rate)]
    assert drawn == [[[[1, 4.5], [2, 4.0]], [[2, 4.2]]], [[[2, 100.0]]], [[[1, 0.1], [2, 0.2]]]]


def test_the_phase_plot_stacks_the_roles() -> None:
    row = PhaseRow("forward", weights=2**20, gradients=0, optimizer=0, activations=3 * 2**20, system={})
    bars = [bar for bar in plot_phases([row]).axes[0].patches if isinstance(bar, Rectangle)]
    assert sum(bar.get_width() for bar in bars) == 4
    assert bars[-1].get_x() == 1


def test_every_build_of_torchvision_can_be_imported() -> None:
    # In a new process, because a repaired import stays repaired.
    code = (
        "from rankzero.learn.data.images import import_torchvision\n"
        "first, repaired = import_torchvision()\n"
        "second, again = import_torchvision()\n"
        "assert first is second and repaired == again\n"
        "import torch, torchvision.transforms.v2, torchvision.datasets\n"
        "from torchvision.models import resnet18\n"
        "print(resnet18(num_classes=10).eval()(torch.zeros(1, 3, 32, 32)).shape[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "10"), done.stderr
