"""The commands for exercises: start, check, watch, hint, status, reset. Each a few lines that call this room."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from rankzero.cli.terminal import Json, console, sentences
from rankzero.curriculum import Lab, all_labs, find_lab, path_from_here
from rankzero.errors import UserError

if TYPE_CHECKING:
    from rankzero.exercises.checks.check import Exercise

commands = typer.Typer()
Number = Annotated[str, typer.Argument(metavar="LAB", help="The lab's number, such as 02.")]
Name = Annotated[str | None, typer.Argument(metavar="EXERCISE", help="One exercise; without it, all of the lab.")]
File = Annotated[Path | None, typer.Option("--file", help="Your exercises.py, if not the one of the last `start`.")]
Seed = Annotated[int | None, typer.Option(help="Repeat a check's random inputs; each report names its seed.")]


@commands.command()
def start(
    number: Number,
    folder: Annotated[
        Path | None, typer.Option(help="Where your copy goes, as FOLDER/lab-NN/exercises.py; at first, work.")
    ] = None,
) -> None:
    """Copies a lab's exercises into a work folder. What you wrote there before stays."""
    from rankzero.exercises.study import workspace

    with sentences():
        lab = _lab_with_exercises(number)
        file, new, before = workspace.start(lab, folder)
    console.print(f"{'Made' if new else 'You have started already; nothing was changed:'} {path_from_here(file)}")
    if before:
        console.print(f"You now work on this copy; the one before is {path_from_here(before)}")
    console.print(f"Write the functions in it, then: rankzero check {lab.number}   (or rankzero watch {lab.number})")


@commands.command()
def check(number: Number, name: Name = None, file: File = None, seed: Seed = None, as_json: Json = False) -> None:
    """Checks your exercises and says what is wrong and why. Exit code 0 only if everything passes."""
    from rankzero.exercises.checks.probe_client import LocalProbeClient
    from rankzero.exercises.checks.runner import check_file, new_seed
    from rankzero.exercises.study import progress, workspace
    from rankzero.exercises.study import report_display as display

    with sentences():
        lab, chosen = _exercises(number, name)
        mine = workspace.work_file(lab, file)
        with LocalProbeClient() as client, console.status("checking") as status:
            report = check_file(
                lab,
                mine,
                chosen,
                seed=new_seed() if seed is None else seed,
                client=client,
                progress=lambda what: status.update(f"checking {what}"),
            )
        if file is None:
            progress.remember(report)
        if as_json:
            print(report.as_json())
        else:
            screen = display.make_console()
            display.show(report, chosen, screen)
            display.show_next(lab, report, screen)
    raise typer.Exit(int(report.points < report.max_points))


@commands.command()
def watch(number: Number, name: Name = None, file: File = None) -> None:
    """Checks again on every save. Keys: h for a hint, l for the list of exercises, q to quit."""
    from rankzero.exercises.checks.probe_client import LocalProbeClient
    from rankzero.exercises.study import workspace
    from rankzero.exercises.study.watch import Session

    with sentences():
        lab, chosen = _exercises(number, name)
        mine = workspace.work_file(lab, file)
        with LocalProbeClient() as client:
            Session(lab, chosen, mine, client, remember=file is None).run()


@commands.command()
def hint(
    number: Number,
    name: Annotated[
        str | None,
        typer.Argument(metavar="EXERCISE", help="The exercise, or a function of it; at first, one not solved yet."),
    ] = None,
) -> None:
    """Shows the next hint of an exercise: first a nudge, at last nearly the answer."""
    from rankzero.exercises.study import progress
    from rankzero.exercises.study import report_display as display

    with sentences():
        lab, chosen = _exercises(number, name)
        exercise = chosen[0] if name else progress.first_open(chosen, progress.of_lab(lab).points)
        display.show_hint(exercise, progress.next_hint(lab, exercise), display.make_console())


@commands.command()
def status(as_json: Json = False) -> None:
    """Shows your progress over all labs: the best of each exercise."""
    from rankzero.exercises.checks.check import exercises_of
    from rankzero.exercises.study.progress import LabProgress, read_progress

    with sentences():
        progress = read_progress()
        labs = [lab for lab in all_labs() if lab.checks.exists()]
        totals = {lab.number: sum(exercise.points for exercise in exercises_of(lab)) for lab in labs}
    if as_json:
        print(json.dumps({number: vars(lab) for number, lab in progress.items()}, indent=2))
        return
    for lab in labs:
        known, most = progress.get(lab.number, LabProgress()), totals[lab.number]
        best, last = sum(known.points.values()), sum(known.last.values())
        state = f"{best} of {most} points" if lab.number in progress else "not started"
        bar = "#" * round(20 * best / most)
        console.print(f"{lab.number}  {escape(f'[{bar:<20}]')}  {state:<18}  {lab.title}")
        if known.last and last < best:
            console.print(
                f"    Your file had {last} points when it was last checked; the best of each exercise counts."
            )
    if not progress:
        console.print("\nBegin with: rankzero start 02")


@commands.command()
def reset(
    number: Number,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; the backup is made all the same.")] = False,
) -> None:
    """Puts a lab's untouched exercises back in place of yours, after asking. Yours are kept beside them."""
    from rankzero.exercises.study import workspace

    with sentences():
        lab = _lab_with_exercises(number)
        file = workspace.work_file(lab)
        question = f"Replace {path_from_here(file)} by the untouched exercises, and forget points and hints?"
        if not yes and not typer.confirm(question):
            console.print("Nothing was changed.")
            return
        backup = workspace.reset(lab)
    console.print(f"Yours is kept as {path_from_here(backup)}.")


def _exercises(number: str, name: str | None) -> "tuple[Lab, tuple[Exercise, ...]]":
    from rankzero.exercises.checks.check import exercises_of

    lab = _lab_with_exercises(number)
    exercises = exercises_of(lab)
    if name is None:
        return lab, exercises
    chosen = tuple(one for one in exercises if name in (one.name, *one.functions))
    if not chosen:
        raise UserError(
            f"lab {lab.number} has no exercise {name!r}: it has {', '.join(one.name for one in exercises)}."
        )
    return lab, chosen


def _lab_with_exercises(number: str) -> Lab:
    lab = find_lab(number)
    if not lab.checks.exists():
        raise UserError(f"lab {lab.number} has no exercises yet.")
    return lab
