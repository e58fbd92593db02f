"""`rankzero interval`: how often a run should save, and what its interruptions cost."""

import json
import math
from typing import Any

import pytest
from typer.testing import CliRunner

from rankzero.cli import app as cli
from rankzero.ledger.interruptions import Interruptions, young

SPOT = ("--save", "60", "--failures-every", "400", "--preempted-every", "6", "--price", "16")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["interval", *arguments])


def test_the_best_interval_is_the_root_of_dalys_condition() -> None:
    for save, between in ((0.01, 6.0), (0.1, 1.0), (1.0, 1.0)):
        best = Interruptions(save, 0.5, failures=1 / between).best_interval()
        assert best == pytest.approx(-between * math.expm1(-(best + save) / between), rel=1e-5)


def test_young_and_the_best_interval_agree_where_failures_are_rare() -> None:
    assert Interruptions(1e-3, failures=1 / 1000).best_interval() == pytest.approx(young(1e-3, 1000), rel=1e-3)


def test_a_run_that_nothing_interrupts_costs_its_saves() -> None:
    assert Interruptions(save=0.1).machine_time(1.0) == pytest.approx(1.1)
    assert Interruptions(save=0.1).best_interval() == math.inf


def test_a_notice_that_is_long_enough_for_a_save_makes_a_preemption_cheaper() -> None:
    cost = {notice: json.loads(run(*SPOT, "--notice", notice, "--json").stdout) for notice in ("30", "120")}
    dollars = {notice: min(row["dollars"] for row in answer["rows"]) for notice, answer in cost.items()}
    assert {notice: round(value) for notice, value in dollars.items()} == {"30": 1751, "120": 1639}
    assert cost["120"]["best_minutes"] > 4 * cost["30"]["best_minutes"]


def test_the_table_shows_the_best_interval_as_the_cheapest_and_youngs_beside_it() -> None:
    lines = run(*SPOT).stdout.splitlines()
    assert lines[0] == "save every 26.0 minutes of training"
    rows = [line.split("$") for line in lines[3:]]
    names = [name.strip() for _, name in rows]
    assert [name for name in names if name] == ["best", "Young's square root"]
    dollars = [int(row.split()[-1].replace(",", "")) for row, _ in rows]
    assert dollars[names.index("best")] == min(dollars)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--save", "30"), "no stop loses work"),
        (("--save", "30", "--preempted-every", "6", "--notice", "30"), "no stop loses work"),
        (("--save", "0", "--failures-every", "3"), "--save is 0: give a finite number above 0"),
        (("--save", "30", "--failures-every", "inf"), "--failures-every is inf: give a finite number"),
        (("--save", "1e6", "--failures-every", "0.1"), "stops come so often that no save is ever finished"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_numbers_get_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
