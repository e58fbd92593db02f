"""The commands for exercises: start, check, watch, hint, status, reset."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from rankzero.curriculum import Lab, all_labs, find_lab
from rankzero.terminal import Json, console, relative, sentences

if TYPE_CHECKING:
    from rankzero.exercises.check import Exercise
    from rankzero.exercises.runner import Report

commands = typer.Typer()
Number = Annotated[str, typer.Argument(metavar="LAB", help="The lab's number, such as 02.")]
Name = Annotated[str | None, typer.Argument(metavar="[EXERCISE]", help="One exercise; without it, all of the lab.")]
File = Annotated[Path | None, typer.Option("--file", help="Your exercises.py, if not the one of the last `start`.")]
Seed = Annotated[int | None, typer.Option(help="Repeat a check's random inputs; each report names its seed.")]


@commands.command()
def start(
    number: Number,
    folder: Annotated[Path, typer.Option(help="Where your copy goes, as FOLDER/lab-NN/exercises.py.")] = Path("work"),
) -> None:
    """Copies a lab's exercises into a work folder. What you wrote there before stays."""
    from rankzero.exercises import workspace

    with sentences():
        lab = _lab_with_exercises(number)
        file, new = workspace.start(lab, folder)
    console.print(f"{'Made' if new else 'You have started already; nothing was changed:'} {relative(file)}")
    console.print(f"Write the functions in it, then: rankzero check {lab.number}   (or rankzero watch {lab.number})")


@commands.command()
def check(number: Number, name: Name = None, file: File = None, seed: Seed = None, as_json: Json = False) -> None:
    """Checks your exercises and says what is wrong and why. Exit code 0 only if everything passes."""
    from rankzero.exercises import display, workspace
    from rankzero.exercises.runner import Worker, check_file, new_seed

    with sentences():
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


@commands.command()
def watch(number: Number, name: Name = None, file: File = None) -> None:
    """Checks again on every save. Keys: h for a hint, l for the list of exercises, q to quit."""
    from rankzero.exercises import display, workspace
    from rankzero.exercises.runner import Report, Worker, check_file, new_seed
    from rankzero.exercises.watch import watch as follow

    screen = display.make_console()
    latest: list[Report] = []
    seed = new_seed()  # one while it watches: the reference's answers need computing only once
    with sentences(), Worker() as worker:
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


@commands.command()
def hint(
    number: Number,
    name: Annotated[str, typer.Argument(metavar="EXERCISE", help="The exercise, or one of its functions.")],
) -> None:
    """Shows the next hint of an exercise: first a nudge, at last nearly the answer."""
    from rankzero.exercises import display

    with sentences():
        lab, (exercise,) = _exercises(number, name)
        display.show_hint(exercise, _next_hint(lab, exercise), display.make_console())


@commands.command()
def status(as_json: Json = False) -> None:
    """Shows your progress over all labs."""
    from rankzero.exercises.progress import read_progress
    from rankzero.exercises.runner import exercises_of

    with sentences():
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


@commands.command()
def reset(
    number: Number,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; the backup is made all the same.")] = False,
) -> None:
    """Puts a lab's untouched exercises back in place of yours, after asking. Yours are kept beside them."""
    from rankzero.exercises import workspace

    with sentences():
        lab = _lab_with_exercises(number)
        file = workspace.work_file(lab)
        if not yes and not typer.confirm(f"Replace {relative(file)} by the untouched exercises?"):
            console.print("Nothing was changed.")
            return
        backup = workspace.reset(lab)
    console.print(f"Yours is kept as {relative(backup)}.")


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
