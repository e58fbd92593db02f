"""The command `rankzero triage`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankzero.cli.terminal import LEARN, Json, console, sentences
from rankzero.errors import UserError

if TYPE_CHECKING:
    from rankzero.triage.record import Record

commands = typer.Typer()
# Options of the script pass; those of the command itself stand before the script.
_PASSING = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


@commands.command(context_settings=_PASSING, rich_help_panel=LEARN)
def triage(
    file: Annotated[Path, typer.Argument(metavar="SCRIPT_OR_LOG", help="A training script, or a log.jsonl of a run.")],
    arguments: typer.Context,
    limit: Annotated[
        float, typer.Option(metavar="SECONDS", min=1.0, help="Stop the script after this time, and judge what it did.")
    ] = 120.0,
    as_json: Json = False,
) -> None:
    """Runs a training script, and names the bugs that show.

    The script runs as it is, in a process of its own, while observers look at its losses, gradients, modes, data,
    times and ranks. Options after SCRIPT_OR_LOG go to the script.

    Exit code 0: nothing found. 1: a finding. 2: it could not run.

    \b
    rankzero triage train.py
    rankzero triage --limit 30 train.py --steps 100     an option of the script
    rankzero triage runs/lab-02-001/log.jsonl           only the curves of a log
    """
    with sentences():
        from rankzero.triage.judge import judge
        from rankzero.triage.report import as_json as plain
        from rankzero.triage.report import cause_lines, table

        records, note = _observe(file, [value for value in arguments.args if value != "--"], limit)
        diagnosis = judge(records)
    causes = diagnosis.causes()
    if as_json:
        print(json.dumps(plain(diagnosis) | {"note": note}, indent=2))
    else:
        console.print(table(diagnosis))
        lines = cause_lines(diagnosis) or ["No sign of a known bug."]
        console.print("\n" + "\n".join([*([note] if note else []), *lines]), markup=False)
    raise typer.Exit(int(bool(causes)))


def _observe(file: Path, arguments: list[str], limit: float) -> "tuple[list[Record], str]":
    """Returns the records of a script or a log, and a sentence on how the script ended; empty if as usual."""
    from rankzero.triage.log_file import read_log_file
    from rankzero.triage.process import run

    if not file.is_file():
        raise UserError(f"there is no file {file}.")
    if file.suffix == ".jsonl":
        if arguments:
            raise UserError(f"{file} is a log, which takes no arguments: {' '.join(arguments)}.")
        return [read_log_file(file)], ""
    if file.suffix != ".py":
        raise UserError(f"{file} is no script (.py) and no log (.jsonl).")
    with console.status(f"running {file.name}") as status:
        done = run(file, arguments, limit, lambda line: status.update(f"running {file.name}: {line}"))
    if not any(record.models or record.failure for record in done.records):
        within = f" within {limit:g} s: give a longer --limit" if done.stopped else ": there is nothing to judge"
        raise UserError(f"{file} called no PyTorch module that has parameters{within}.")
    return done.records, f"The script was stopped after {limit:g} s (--limit)." if done.stopped else ""
