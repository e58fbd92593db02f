"""The command `rankzero`: each command a few lines that call a room of the library."""

import dataclasses
import itertools
import json
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rankzero.cli.authoring_commands import commands as authoring
from rankzero.cli.child_program import run_to_end
from rankzero.cli.claims_command import commands as measuring
from rankzero.cli.figures_command import commands as drawing
from rankzero.cli.grading_commands import commands as grading
from rankzero.cli.interval_command import commands as saving
from rankzero.cli.plan_command import commands as planning
from rankzero.cli.starter_options import check_options
from rankzero.cli.study_commands import commands
from rankzero.cli.terminal import LEARN, MACHINE, START, WRITE, Commands, Json, console, fail, sentences
from rankzero.cli.triage_command import commands as examining
from rankzero.curriculum import ROOT, Lab, all_labs, find_lab, path_from_here
from rankzero.errors import UserError
from rankzero.learn.machine.lazy_dynamo import import_dynamo_lazily

app = typer.Typer(
    name="rankzero",
    cls=Commands,
    help="Labs on training infrastructure in which every statement is executable.",
    epilog=f"{START} `rankzero COMMAND --help` says more about a command.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# Commands that pass their options, --help too, to another program.
_PASSING = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.callback()
def prepare() -> None:
    """Prepares the process for any command."""
    import_dynamo_lazily()  # plan, claims and sync make optimizers in this process


@app.command(rich_help_panel=MACHINE)
def doctor(as_json: Json = False) -> None:
    """Prints what this machine can run and what limits it.

    Exit code 1 if something will fail.
    """
    with console.status("examining this machine"):
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


@app.command("list", rich_help_panel=LEARN)
def list_labs(as_json: Json = False) -> None:
    """Lists the labs."""
    with sentences():
        labs = all_labs(drafts=True)
    if as_json:
        keys = ("number", "title", "part", "summary", "minutes", "difficulty", "needs", "draft")
        print(json.dumps([{key: getattr(lab, key) for key in keys} for lab in labs], indent=2))
        return
    for lab in labs:
        state = "draft, not finished" if lab.draft else f"{lab.minutes} minutes, {lab.difficulty}"
        console.print(f"{lab.number}  [bold]{lab.title}[/], {state}")
        indent = " " * 4
        print(textwrap.fill(lab.summary, console.width, initial_indent=indent, subsequent_indent=indent))
    console.print("rankzero run NUMBER starts a lab. The page of each lab is in labs/.")


@app.command(context_settings=_PASSING, rich_help_panel=LEARN)
def run(
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="A lab's number, such as 02.")],
    arguments: typer.Context,
    mine: Annotated[
        bool, typer.Option("--mine", help="Train with your functions too, and compare the curves.")
    ] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="With --mine, also if your functions fail checks.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="With --mine, your exercises.py; by default that of the last `start`.")
    ] = None,
) -> None:
    """Runs a lab's starter, then names the pages to open next.

    Options that are not listed below go to the starter: `rankzero run 02 --help` lists them.

    With --mine the starter trains a second time, with the functions that you
    wrote as exercises in place of its own, and both loss curves are compared.
    Exit code 1 if they part by more than rounding.

    \b
    rankzero run 02                the lab as it is, about a minute
    rankzero run 02 --steps 50     an option of the starter
    rankzero run 02 --mine         with your functions
    """
    if number in ("-h", "--help") or (mine and {"-h", "--help"} & set(arguments.args)):
        typer.echo(arguments.get_help())
        return
    with sentences():
        lab = find_lab(number)
        check_options(lab, arguments.args)
        if mine:
            raise typer.Exit(_compare_with_mine(lab, file, anyway, arguments.args))
        if anyway or file:
            raise UserError(f"{'--anyway' if anyway else '--file'} is about your functions: give --mine too.")
    environment = os.environ | {"RANKZERO_RUN": f"{_as_typed(sys.argv[0])} run {number}"}  # the starter repeats it
    code = run_to_end(lab.starter, arguments.args, environment)
    if code == 0 and not {"-h", "--help", "--json"} & set(arguments.args):
        console.print("\n[bold]Open next[/]")
        console.print(f"  {path_from_here(lab.page)}   the code of this run, line by line")
        console.print(f"  {path_from_here(lab.notebook)}   predict, run, explain")
        console.print(f"  {path_from_here(lab.chapters[0])}   the chapter behind it")
    raise typer.Exit(code)


def _as_typed(program: str) -> str:
    """Returns the word that starts `program`, this command, again: its path where the shell does not find its name."""
    found = (
        Path(program).name != "rankzero" or shutil.which("rankzero") == program
    )  # `python -m rankzero.cli` has no name
    return "rankzero" if found else path_from_here(Path(program))


def _compare_with_mine(lab: Lab, named: Path | None, anyway: bool, arguments: list[str]) -> int:
    """Trains with the starter's functions and with the learner's; returns the exit code."""
    from rankzero.exercises.study.mine import check_exercises, run_both, starter_options
    from rankzero.exercises.study.workspace import work_file

    options = starter_options(lab, arguments)
    file = work_file(lab, named)
    if not anyway:
        with console.status("checking the exercises that the run uses") as status:
            check_exercises(lab, file, lambda name: status.update(f"checking {name}"))
    return run_both(lab, file, options, lambda line: console.print(line, markup=False, highlight=False))


@app.command(context_settings=_PASSING, rich_help_panel=MACHINE)
def gpu(arguments: typer.Context) -> None:
    """Runs and measures everything that needs a GPU, in minutes.

    It installs nothing. --help lists the parts.

    Example: rankzero gpu --out runs/gpu --minutes 8
    """
    paths = [str(ROOT / "code"), str(ROOT / "benchmarks"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    raise typer.Exit(run_to_end(ROOT / "benchmarks" / "gpu_session" / "__main__.py", arguments.args, environment))


@app.command(rich_help_panel=WRITE)
def sync(
    check: Annotated[bool, typer.Option(help="Write nothing; exit code 1 if a file is stale.")] = False,
    execute: Annotated[bool, typer.Option(help="Run the notebooks again even if their cells are the same.")] = False,
    record: Annotated[bool, typer.Option(help="First run the recorded commands again and write their output.")] = False,
    lab: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="With --record, the commands of this lab only.")
    ] = None,
) -> None:
    """Writes generated files again from their sources.

    These are notebooks, stubs, figures, and the excerpts and tables in pages.
    """
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


@app.command(rich_help_panel=WRITE)
def site(
    out: Annotated[Path, typer.Option(help="The folder to write; an earlier build in it is replaced.")] = ROOT / "site",
    serve: Annotated[bool, typer.Option("--serve", help="Show the site in a browser; rebuild on change.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port of --serve.")] = 8000,
) -> None:
    """Builds the site from pages, notebooks and sources.

    It opens from the file system, without a network.
    """
    with sentences():
        from rankzero.publish.site import build

        if serve:
            build.serve(port)
        else:
            with console.status("building the site"):
                seconds = build.build(out)
            console.print(f"wrote {path_from_here(out)}/ in {seconds:.0f} s: open {path_from_here(out / 'index.html')}")


app.add_typer(commands)  # start, check, watch, hint, compare, status, reset
app.add_typer(planning)  # plan
app.add_typer(saving)  # interval
app.add_typer(examining)  # triage
app.add_typer(grading)  # grade, feedback
app.add_typer(authoring)  # new-lab, verify-lab
app.add_typer(measuring)  # claims
app.add_typer(drawing)  # figures
