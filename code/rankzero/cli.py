"""The command `rankzero`: each command a few lines that call a room of the library."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rankzero.curriculum import ROOT, Lab, ManifestError, all_labs, find_lab

app = typer.Typer(
    name="rankzero",
    help="Labs on training infrastructure in which every statement is executable. Start with: rankzero run 02",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console(highlight=False, soft_wrap=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]


@app.command()
def doctor(as_json: Json = False) -> None:
    """Says in plain words what this machine can run. Exit code 1 if something will fail."""
    from rankzero.learn.machine import examine  # torch takes seconds to import; --help should not wait for it

    findings = examine()
    labs = all_labs()
    if as_json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        marks = {"ok": "[green]ok     [/]", "limit": "[yellow]limit  [/]", "problem": "[red]problem[/]"}
        for finding in findings:
            console.print(f"{marks[finding.verdict]} [bold]{finding.subject}[/]: {escape(finding.text)}")
        gpu = next(finding for finding in findings if finding.subject == "GPU").verdict == "ok"
        runnable = [lab.number for lab in labs if gpu or "cuda" not in lab.needs]
        console.print(f"\nThis machine can run lab {', '.join(runnable)}. Begin with: rankzero run {runnable[0]}")
    raise typer.Exit(int(any(finding.verdict == "problem" for finding in findings)))


@app.command("list")
def list_labs(as_json: Json = False) -> None:
    """Lists the labs that exist."""
    labs = _labs()
    if as_json:
        keys = ("number", "title", "part", "summary", "minutes", "difficulty", "needs")
        print(json.dumps([{key: getattr(lab, key) for key in keys} for lab in labs], indent=2))
        return
    table = Table("lab", "title", "minutes", "difficulty", "what you will see", box=None, pad_edge=False)
    for lab in labs:
        table.add_row(lab.number, lab.title, str(lab.minutes), lab.difficulty, lab.summary)
    Console().print(table)
    console.print("\nrankzero run NUMBER starts one. The page to read beside it is in labs/.")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def run(number: str, arguments: typer.Context) -> None:
    """Runs a lab's starter, then says what to open next. Options after the number go to the starter, --help too."""
    if number in ("-h", "--help"):
        console.print("Usage: rankzero run NUMBER [OPTIONS OF THE STARTER]     for example: rankzero run 02 --steps 50")
        return
    try:
        lab = find_lab(number)
    except (LookupError, ManifestError) as error:
        _fail(str(error.args[0]))
    try:
        code = subprocess.run([sys.executable, str(lab.starter), *arguments.args]).returncode
    except KeyboardInterrupt:  # the starter had it too, and has said what it saved
        code = 130
    if code == 0 and not {"-h", "--help"} & set(arguments.args):
        _next(lab)
    raise typer.Exit(code)


@app.command()
def sync(
    check: Annotated[bool, typer.Option(help="Write nothing; exit code 1 if something is stale.")] = False,
    execute: Annotated[bool, typer.Option(help="Run the notebooks again even if their cells are the same.")] = False,
    record: Annotated[bool, typer.Option(help="First record anew what the starters print.")] = False,
) -> None:
    """Regenerates notebooks and the excerpts in pages from their sources."""
    from rankzero.publish import sync as publish
    from rankzero.publish.excerpts import ExcerptError
    from rankzero.publish.notebooks import NotebookError
    from rankzero.publish.recordings import RecordingError

    try:
        with console.status("running starters and comparing generated files with their sources"):
            changed = [*(publish.record() if record else []), *publish.sync(check=check, execute=execute)]
    except (ExcerptError, NotebookError, RecordingError, ManifestError) as error:
        _fail(str(error))
    for file in changed:
        console.print(f"{'stale' if check else 'wrote'}  {_relative(file)}")
    if check and changed:
        _fail("run `make sync` and commit what it writes.", code=1)
    if not changed:
        console.print("Every generated file equals its source.")


def _labs() -> list[Lab]:
    try:
        return all_labs()
    except ManifestError as error:
        _fail(str(error))


def _next(lab: Lab) -> None:
    console.print("\n[bold]Open next[/]")
    console.print(f"  {_relative(lab.page)}   what you just saw, line by line")
    console.print(f"  {_relative(lab.notebook)}   predict, run, explain")
    console.print(f"  {_relative(lab.chapters[0])}   the chapter behind it")


def _relative(path: Path) -> str:
    return os.path.relpath(path) if Path.cwd().is_relative_to(ROOT) else str(path)


def _fail(sentence: str, code: int = 2) -> NoReturn:
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"rankzero: {escape(sentence)}")
    raise typer.Exit(code)


if __name__ == "__main__":
    app()
