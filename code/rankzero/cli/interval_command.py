"""The command `rankzero interval`."""

import json
import math
from typing import Annotated, Any

import typer

from rankzero.cli.terminal import LEARN, Json, console, sentences
from rankzero.errors import UserError

commands = typer.Typer()
SECONDS_PER_HOUR = 3600.0
AROUND = 1 / 4, 1 / 2, 2, 4  # multiples of the best interval, in the table beside it


def _positive(text: str, metavar: str) -> Any:
    return typer.Option(help=text, metavar=metavar, min=0.0)


@commands.command(rich_help_panel=LEARN)
def interval(
    save: Annotated[float, _positive("Time for which training waits for a save.", "SECONDS")],
    failures_every: Annotated[float | None, _positive("Mean time between failures of the run.", "HOURS")] = None,
    preempted_every: Annotated[float | None, _positive("Mean time between preemptions (spot).", "HOURS")] = None,
    notice: Annotated[float, _positive("Notice before a preemption.", "SECONDS")] = 0.0,
    restart: Annotated[float, _positive("From a stop until training continues.", "SECONDS")] = 300.0,
    hours: Annotated[float, _positive("Hours of training, without saves and stops.", "HOURS")] = 100.0,
    price: Annotated[float | None, _positive("Price of the machines.", "DOLLARS_PER_HOUR")] = None,
    as_json: Json = False,
) -> None:
    """Says how often a run should save, and what stops cost.

    A failure loses the work since the last save. A preemption does too, unless the notice is long enough for a save.

    \b
    rankzero interval --save 30 --failures-every 3.1
    rankzero interval --save 60 --preempted-every 6 --notice 30 --price 16

    The formula is Daly's; handbook/checkpoints-and-faults.md explains it.
    """
    from rankzero.ledger.interruptions import Interruptions, young

    with sentences():
        between = {"--failures-every": failures_every, "--preempted-every": preempted_every}
        for option, value in ({"--save": save, "--hours": hours} | between).items():
            if value is not None and not (0 < value < math.inf):
                raise UserError(f"{option} is {value:g}: give a finite number above 0.")
        failures, preemptions = (1 / every if every else 0.0 for every in between.values())
        times = (save / SECONDS_PER_HOUR, restart / SECONDS_PER_HOUR)
        stops = Interruptions(*times, failures, preemptions, notice / SECONDS_PER_HOUR)
        if not stops.losses:
            raise UserError(
                "no stop loses work, so no save is needed before the end: give --failures-every HOURS, or "
                "--preempted-every HOURS with a --notice shorter than a save."
            )
        best, root = stops.best_interval(), young(stops.save, 1 / stops.losses)
        if not math.isfinite(stops.machine_time(best)):
            raise UserError("stops come so often that no save is ever finished: shorten the --save.")
        rows = [_row(stops, hours, price, best * multiple, "") for multiple in AROUND]
        rows += [_row(stops, hours, price, best, "best"), _row(stops, hours, price, root, "Young's square root")]
        rows.sort(key=lambda row: row["interval_minutes"])
        if as_json:
            finite = [row for row in rows if math.isfinite(row["machine_hours"])]
            print(json.dumps({"best_minutes": 60 * best, "young_minutes": 60 * root, "rows": finite}, indent=2))
            return
        console.print(f"save every {60 * best:,.1f} minutes of training", markup=False)
        console.print(f"\n{'interval':>13}  {'machine time':>15}" + (f"  {'dollars':>12}" if price is not None else ""))
        for row in rows:
            console.print(_line(row), markup=False)


def _row(stops: Any, hours: float, price: float | None, between: float, name: str) -> dict[str, Any]:
    """Returns what an interval costs: minutes, hours of machine time, and dollars if there is a price."""
    machine_hours = hours * stops.machine_time(between)
    row: dict[str, Any] = {"interval_minutes": 60 * between, "machine_hours": machine_hours, "name": name}
    return row if price is None else row | {"dollars": machine_hours * price}


def _line(row: dict[str, Any]) -> str:
    hours = f"{row['machine_hours']:,.1f} h" if row["machine_hours"] < 1e9 else "never ends"
    dollars = f"  {row['dollars']:>10,.0f} $" if row.get("dollars", math.inf) < 1e12 else ""
    return f"{row['interval_minutes']:>9,.1f} min  {hours:>15}{dollars}  {row['name']}".rstrip()
