"""The command `rankzero`: each command a few lines that call a room of the library."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rankzero.curriculum import ROOT, Lab, ManifestError, all_labs, find_lab

if TYPE_CHECKING:
    from rankzero.exercises.check import Exercise
    from rankzero.exercises.runner import Report

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
    starter = subprocess.Popen([sys.executable, str(lab.starter), *arguments.args])
    while (code := starter.poll()) is None:
        with contextlib.suppress(KeyboardInterrupt):  # the starter gets Ctrl-C too: let it finish its step and save
            code = starter.wait()
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
    from rankzero.publish.stubs import StubError

    try:
        with console.status("running starters and comparing generated files with their sources"):
            changed = [*(publish.record() if record else []), *publish.sync(check=check, execute=execute)]
    except (ExcerptError, NotebookError, RecordingError, StubError, ManifestError) as error:
        _fail(str(error))
    for file in changed:
        console.print(f"{'stale' if check else 'wrote'}  {_relative(file)}")
    if check and changed:
        _fail("run `make sync` and commit what it writes.", code=1)
    if not changed:
        console.print("Every generated file equals its source.")


@app.command()
def claims(
    slug: Annotated[str | None, typer.Argument(metavar="[SLUG]", help="Measure this one and show how.")] = None,
    page: Annotated[str | None, typer.Option(help="Only claims of this page, such as memory.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes side by side.")] = os.cpu_count() or 1,
    bare_figures: Annotated[bool, typer.Option("--bare-figures", help="List figures that nothing backs.")] = False,
    as_json: Json = False,
) -> None:
    """Measures what the text states; writes handbook/claims.md. Exit code 1 if a number is not what the text says."""
    from rankzero.claims import report

    with _sentences():
        if bare_figures:
            found = report.all_bare_figures()
            console.print("\n".join(escape(figure) for figure in found) or "Every figure has something behind it.")
            raise typer.Exit(int(bool(found)))
        if slug:
            raise typer.Exit(report.show_one(slug, console, as_json=as_json))
        raise typer.Exit(report.measure_all(page, jobs, console, as_json=as_json))


Number = Annotated[str, typer.Argument(metavar="LAB", help="The lab's number, such as 02.")]
Name = Annotated[str | None, typer.Argument(metavar="[EXERCISE]", help="One exercise; without it, all of the lab.")]
File = Annotated[Path | None, typer.Option("--file", help="Your exercises.py, if not the one of the last `start`.")]
Seed = Annotated[int | None, typer.Option(help="Repeat a check's random inputs; each report names its seed.")]


@app.command()
def start(
    number: Number,
    folder: Annotated[Path, typer.Option(help="Where your copy goes, as FOLDER/lab-NN/exercises.py.")] = Path("work"),
) -> None:
    """Copies a lab's exercises into a work folder. What you wrote there before stays."""
    from rankzero.exercises import workspace

    with _sentences():
        lab = _lab_with_exercises(number)
        file, new = workspace.start(lab, folder)
    console.print(f"{'Made' if new else 'You have started already; nothing was changed:'} {_relative(file)}")
    console.print(f"Write the functions in it, then: rankzero check {lab.number}   (or rankzero watch {lab.number})")


@app.command()
def check(number: Number, name: Name = None, file: File = None, seed: Seed = None, as_json: Json = False) -> None:
    """Checks your exercises and says what is wrong and why. Exit code 0 only if everything passes."""
    from rankzero.exercises import display, workspace
    from rankzero.exercises.runner import Worker, check_file, new_seed

    with _sentences():
        lab, chosen = _exercises(number, name)
        mine = workspace.work_file(lab, file)
        with Worker() as worker, console.status("checking") as status:
            report = check_file(
                lab,
                mine,
                chosen,
                seed=new_seed() if seed is None else seed,
                worker=worker,
                progress=lambda what: status.update(f"checking {what}"),
            )
        if file is None:
            _remember(lab, report)
    if as_json:
        print(report.as_json())
    else:
        display.show(report, chosen, display.make_console())
    raise typer.Exit(int(report.points < report.max_points))


@app.command()
def watch(number: Number, name: Name = None, file: File = None) -> None:
    """Checks again on every save. Keys: h for a hint, l for the list of exercises, q to quit."""
    from rankzero.exercises import display, workspace
    from rankzero.exercises.runner import Report, Worker, check_file, new_seed
    from rankzero.exercises.watch import watch as follow

    screen = display.make_console()
    latest: list[Report] = []
    seed = new_seed()  # one while it watches: the reference's answers need computing only once
    with _sentences(), Worker() as worker:
        lab, chosen = _exercises(number, name)
        mine = workspace.work_file(lab, file)

        def again() -> None:
            worker.forget(mine)
            latest[:] = [check_file(lab, mine, chosen, seed=seed, worker=worker)]
            if file is None:
                _remember(lab, latest[0])
            screen.rule()
            display.show(latest[0], chosen, screen)
            screen.print("h hint   l list   q quit   (checks again when you save)", style="dim")

        def hint() -> None:
            open_ones = {result.exercise for result in latest[0].results if result.status != "pass"}
            exercise = next((one for one in chosen if one.name in open_ones), None)
            if exercise:
                display.show_hint(exercise, _next_hint(lab, exercise), screen)
            else:
                screen.print("Nothing is left to hint at.")

        follow(mine, again, {"h": hint, "l": lambda: _list_exercises(chosen, screen)})


@app.command()
def hint(
    number: Number,
    name: Annotated[str, typer.Argument(metavar="EXERCISE", help="The exercise, or one of its functions.")],
) -> None:
    """Shows the next hint of an exercise: first a nudge, at last nearly the answer."""
    from rankzero.exercises import display

    with _sentences():
        lab, (exercise,) = _exercises(number, name)
        display.show_hint(exercise, _next_hint(lab, exercise), display.make_console())


@app.command()
def status(as_json: Json = False) -> None:
    """Shows your progress over all labs."""
    from rankzero.exercises.progress import read_progress
    from rankzero.exercises.runner import exercises_of

    with _sentences():
        progress = read_progress()
        labs = [lab for lab in all_labs() if lab.checks.exists()]
        totals = {lab.number: sum(exercise.points for exercise in exercises_of(lab)) for lab in labs}
    if as_json:
        print(json.dumps({number: vars(lab) for number, lab in progress.items()}, indent=2))
        return
    for lab in labs:
        known = progress.get(lab.number)
        got, most = sum(known.points.values()) if known else 0, totals[lab.number]
        bar = "#" * round(20 * got / most)
        state = "not started" if not known else f"{got} of {most} points"
        console.print(f"{lab.number}  {escape(f'[{bar:<20}]')}  {state:<18}  {lab.title}")
    if not progress:
        console.print("\nBegin with: rankzero start 02")


@app.command()
def reset(
    number: Number,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; the backup is made all the same.")] = False,
) -> None:
    """Puts a lab's untouched exercises back in place of yours, after asking. Yours are kept beside them."""
    from rankzero.exercises import workspace

    with _sentences():
        lab = _lab_with_exercises(number)
        file = workspace.work_file(lab)
        if not yes and not typer.confirm(f"Replace {_relative(file)} by the untouched exercises?"):
            console.print("Nothing was changed.")
            return
        backup = workspace.reset(lab)
    console.print(f"Yours is kept as {_relative(backup)}.")


def _exercises(number: str, name: str | None) -> "tuple[Lab, tuple[Exercise, ...]]":
    from rankzero.exercises.runner import exercises_of

    lab = _lab_with_exercises(number)
    exercises = exercises_of(lab)
    if name is None:
        return lab, exercises
    chosen = tuple(one for one in exercises if name in (one.name, *one.functions))
    if not chosen:
        raise LookupError(
            f"lab {lab.number} has no exercise {name!r}: it has {', '.join(one.name for one in exercises)}."
        )
    return lab, chosen


def _lab_with_exercises(number: str) -> Lab:
    lab = find_lab(number)
    if not lab.checks.exists():
        raise LookupError(f"lab {lab.number} has no exercises yet.")
    return lab


def _next_hint(lab: Lab, exercise: "Exercise") -> int:
    from rankzero.exercises.progress import LabProgress, read_progress, write_progress

    known = read_progress().get(lab.number, LabProgress())
    tier = min(known.hints.get(exercise.name, 0) + 1, len(exercise.hints))
    known.hints[exercise.name] = tier
    write_progress(lab.number, known)
    return tier


def _remember(lab: Lab, report: "Report") -> None:
    from rankzero.exercises.progress import LabProgress, now, read_progress, write_progress

    known = read_progress().get(lab.number, LabProgress())
    for exercise in {result.exercise for result in report.results}:
        known.points[exercise] = sum(result.points for result in report.results if result.exercise == exercise)
    known.checked = now()
    write_progress(lab.number, known)


def _list_exercises(exercises: "tuple[Exercise, ...]", screen: Console) -> None:
    for exercise in exercises:
        screen.print(f"{exercise.name}   {exercise.points} points, {exercise.minutes} minutes, {exercise.difficulty}")


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    """Turns the mistakes of a user into one sentence and exit code 2, and Ctrl-C into exit code 130."""
    from rankzero.claims.claim import ClaimError
    from rankzero.exercises.progress import ProgressError
    from rankzero.exercises.workspace import WorkspaceError

    try:
        yield
    except (ClaimError, LookupError, ManifestError, ProgressError, WorkspaceError) as error:
        _fail(str(error.args[0]))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


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
