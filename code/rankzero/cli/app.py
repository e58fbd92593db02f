"""The command `rankzero`: each command a few lines that call a room of the library."""

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rankzero.cli import quiet_start
from rankzero.cli.authoring_commands import commands as authoring
from rankzero.cli.claims_command import commands as measuring
from rankzero.cli.figures_command import commands as drawing
from rankzero.cli.grading_commands import commands as grading
from rankzero.cli.plan_command import commands as planning
from rankzero.cli.starter_options import check_options
from rankzero.cli.study_commands import commands
from rankzero.cli.terminal import START, Commands, Json, console, fail, sentences
from rankzero.curriculum import ROOT, Lab, all_labs, find_lab, path_from_here
from rankzero.errors import UserError
from rankzero.learn.machine.lazy_dynamo import import_dynamo_lazily

app = typer.Typer(
    name="rankzero",
    cls=Commands,
    help=f"Labs on training infrastructure in which every statement is executable. {START}",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def prepare() -> None:
    """Prepares the process for any command."""
    import_dynamo_lazily()  # plan, claims and sync make optimizers in this process


@app.command()
def doctor(as_json: Json = False) -> None:
    """Prints what this machine can run and what limits it. Exit code 1 if something will fail."""
    from rankzero.grading.sandbox.sandbox_client import why_unavailable
    from rankzero.learn.machine.doctor import Finding, examine  # imports torch, which takes seconds

    sandbox = Finding("sandbox", "ok", "bubblewrap has just isolated a process, so `rankzero grade` works")
    if why := why_unavailable():
        sandbox = Finding("sandbox", "limit", f"{why}. Labs run; `rankzero grade` can only grade with --trusted.")
    findings = [*examine(), sandbox]
    labs = all_labs()
    if as_json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        marks = {"ok": "[green]ok     [/]", "limit": "[yellow]limit  [/]", "problem": "[red]problem[/]"}
        for finding in findings:
            console.print(f"{marks[finding.verdict]} [bold]{finding.subject}[/]: {escape(finding.text)}")
        gpu = next(finding for finding in findings if finding.subject == "GPU").verdict == "ok"
        runnable = [lab.number for lab in labs if gpu or "cuda" not in lab.needs]
        console.print(f"\nThis machine can run lab {', '.join(runnable)}. {START}", markup=False)
    raise typer.Exit(int(any(finding.verdict == "problem" for finding in findings)))


@app.command("list")
def list_labs(as_json: Json = False) -> None:
    """Lists the labs. `rankzero run NUMBER` starts one."""
    with sentences():
        labs = all_labs()
    if as_json:
        keys = ("number", "title", "part", "summary", "minutes", "difficulty", "needs")
        print(json.dumps([{key: getattr(lab, key) for key in keys} for lab in labs], indent=2))
        return
    table = Table("lab", "title", "minutes", "difficulty", "what you will see", box=None, pad_edge=False)
    for lab in labs:
        table.add_row(lab.number, lab.title, str(lab.minutes), lab.difficulty, lab.summary)
    Console().print(table)
    console.print("\nrankzero run NUMBER starts a lab. The page of each lab is in labs/.")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def run(
    number: str,
    arguments: typer.Context,
    mine: Annotated[
        bool, typer.Option("--mine", help="Train with your functions too, and compare the curves.")
    ] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="With --mine, also if your functions fail checks.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="With --mine, your exercises.py; by default that of the last `start`.")
    ] = None,
) -> None:
    """Runs a lab's starter, then prints what to open next. Options after the number go to the starter, --help too.

    With --mine, the starter trains a second time with the functions that you wrote as exercises in place of its own.
    Both loss curves are compared. Exit code 1 if they part by more than rounding.

    \b
    rankzero run 02 --steps 50
    rankzero run 04 --mine
    """
    if number in ("-h", "--help"):
        console.print("Usage: rankzero run NUMBER [OPTIONS OF THE STARTER]     for example: rankzero run 02 --steps 50")
        console.print("       rankzero run NUMBER --mine    with the functions that you wrote; compares the curves")
        return
    with sentences():
        lab = find_lab(number)
        if mine:
            raise typer.Exit(_compare_with_mine(lab, file, anyway, arguments.args))
        if anyway or file:
            raise UserError(f"{'--anyway' if anyway else '--file'} is about your functions: give --mine too.")
        check_options(lab, arguments.args)
    starter = subprocess.Popen([sys.executable, quiet_start.__file__, str(lab.starter), *arguments.args])
    code = _code_of(starter)
    if code == 0 and not {"-h", "--help", "--json"} & set(arguments.args):
        console.print("\n[bold]Open next[/]")
        console.print(f"  {path_from_here(lab.page)}   the code of this run, line by line")
        console.print(f"  {path_from_here(lab.notebook)}   predict, run, explain")
        console.print(f"  {path_from_here(lab.chapters[0])}   the chapter behind it")
    raise typer.Exit(code)


def _compare_with_mine(lab: Lab, named: Path | None, anyway: bool, arguments: list[str]) -> int:
    """Trains with the starter's functions and with the learner's; returns the exit code."""
    from rankzero.exercises.study.mine import check_exercises, run_both
    from rankzero.exercises.study.workspace import work_file

    file = work_file(lab, named)
    if not anyway:
        with console.status("checking the exercises that the run uses") as status:
            check_exercises(lab, file, lambda name: status.update(f"checking {name}"))
    return run_both(lab, file, arguments, lambda line: console.print(line, markup=False, highlight=False))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def gpu(arguments: typer.Context) -> None:
    """Runs and measures everything that needs a GPU, in minutes, without installing anything. --help lists the parts.

    Example: rankzero gpu --out runs/gpu --minutes 8
    """
    paths = [str(ROOT / "code"), str(ROOT / "benchmarks"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    session = subprocess.Popen([sys.executable, "-m", "gpu_session", *arguments.args], env=environment)
    raise typer.Exit(_code_of(session))


@app.command()
def sync(
    check: Annotated[bool, typer.Option(help="Write nothing; exit code 1 if a file is stale.")] = False,
    execute: Annotated[bool, typer.Option(help="Run the notebooks again even if their cells are the same.")] = False,
    record: Annotated[bool, typer.Option(help="First run the recorded commands again and write their output.")] = False,
    lab: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="With --record, the commands of this lab only.")
    ] = None,
) -> None:
    """Regenerates notebooks, stubs, figures, and excerpts and tables in pages from their sources."""
    changed = False
    with sentences(), console.status("running starters and comparing generated files with their sources"):
        from rankzero.publish import sync as publish

        recorded = publish.record([find_lab(lab)] if lab else all_labs()) if record else iter(())
        for file in itertools.chain(recorded, publish.sync(check=check, execute=execute)):
            console.print(f"{'stale' if check else 'wrote'}  {path_from_here(file)}")
            changed = True
    if check and changed:
        fail("run `make sync` and commit what it writes.", code=1)
    if not changed:
        console.print("Every generated file equals its source.")


@app.command()
def site(
    out: Annotated[Path, typer.Option(help="The folder to write; an earlier build in it is replaced.")] = ROOT / "site",
    serve: Annotated[bool, typer.Option("--serve", help="Show the site in a browser; rebuild on change.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port of --serve.")] = 8000,
) -> None:
    """Builds the site from pages, notebooks and sources. It opens from the file system, without a network."""
    with sentences():
        from rankzero.publish.site import build

        if serve:
            build.serve(port)
        else:
            with console.status("building the site"):
                seconds = build.build(out)
            console.print(f"wrote {path_from_here(out)}/ in {seconds:.0f} s: open {path_from_here(out / 'index.html')}")


app.add_typer(measuring)  # claims
app.add_typer(drawing)  # figures
app.add_typer(planning)  # plan
app.add_typer(commands)  # start, check, watch, hint, status, reset
app.add_typer(grading)  # grade, feedback
app.add_typer(authoring)  # new-lab, verify-lab


def _code_of(process: "subprocess.Popen[bytes]") -> int:
    """Returns the exit code. The process gets Ctrl-C too, and SIGTERM from here: it may finish its step, and save."""
    signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))
    while (code := process.poll()) is None:
        with contextlib.suppress(KeyboardInterrupt):
            code = process.wait()
    return code
