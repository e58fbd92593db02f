"""The commands for exercises: start, check, watch, hint, compare, status, reset."""

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from rankzero.cli.terminal import LEARN, Json, console, sentences
from rankzero.curriculum import Lab, all_labs, find_lab_with_exercises, path_from_here
from rankzero.errors import UserError

if TYPE_CHECKING:
    from rankzero.exercises.checks.check import Exercise

commands = typer.Typer()
Number = Annotated[str, typer.Argument(metavar="LAB", help="The lab's number, such as 02.")]
Name = Annotated[
    str | None, typer.Argument(metavar="EXERCISE", help="One exercise, or a function of it; by default all of the lab.")
]
File = Annotated[
    Path | None, typer.Option("--file", help="Your exercises.py; by default the copy of the last `start`.")
]
Seed = Annotated[
    int | None, typer.Option(help="Repeat the random inputs of an earlier check; each report names its seed.")
]


@commands.command(rich_help_panel=LEARN)
def start(
    number: Number,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="The folder for your copy, FOLDER/lab-NN/exercises.py; by default that of the last start, or work."
        ),
    ] = None,
) -> None:
    """Copies a lab's exercises into your work folder.

    An existing copy stays. Example: rankzero start 02
    """
    from rankzero.exercises.study import workspace

    with sentences():
        lab = find_lab_with_exercises(number)
        file, new, before = workspace.start(lab, folder)
    console.print(f"{'Made' if new else 'You have started already; nothing was changed:'} {path_from_here(file)}")
    if before:
        console.print(f"You now work on this copy; the earlier copy is {path_from_here(before)}")
    console.print(f"Write the functions in it, then: rankzero check {lab.number}   (or rankzero watch {lab.number})")


@commands.command(rich_help_panel=LEARN)
def check(number: Number, name: Name = None, file: File = None, seed: Seed = None, as_json: Json = False) -> None:
    """Checks your exercises and explains each mistake.

    Exit code 0 only if every check passes.

    Example: rankzero check 02 train_step
    """
    from rankzero.exercises.checks.probe_client import LocalProbeClient
    from rankzero.exercises.checks.runner import check_file, new_seed
    from rankzero.exercises.study import progress, workspace
    from rankzero.exercises.study import report_display as display
    from rankzero.exercises.study.next_steps import next_steps

    with sentences():
        lab, chosen = _exercises(number, name)
        work_file = workspace.work_file(lab, file)
        source = work_file.read_bytes()
        with LocalProbeClient() as client, console.status("checking") as status:
            report = check_file(
                lab,
                work_file,
                chosen,
                seed=new_seed() if seed is None else seed,
                client=client,
                progress=lambda name: status.update(f"checking {name}"),
            )
        if file is None:
            progress.remember(report, source)
        if as_json:
            print(report.as_json())
        else:
            screen = display.make_console()
            display.show(report, chosen, screen)
            for text in next_steps(lab, report, chosen):
                display.print_paragraph(text, screen, style="green")
    raise typer.Exit(int(report.points < report.max_points))


@commands.command(rich_help_panel=LEARN)
def watch(number: Number, name: Name = None, file: File = None) -> None:
    """Checks your exercises again after every save.

    Keys: h hint, s solution of what passes, l list, q quit.

    Example: rankzero watch 02 train_step
    """
    from rankzero.exercises.checks.probe_client import LocalProbeClient
    from rankzero.exercises.study import workspace
    from rankzero.exercises.study.watch import Session

    with sentences():
        lab, chosen = _exercises(number, name)
        work_file = workspace.work_file(lab, file)
        options = f" --file {file}" if file else ""
        with LocalProbeClient() as client:
            Session(lab, chosen, work_file, client, file is None, options).run()


@commands.command(rich_help_panel=LEARN)
def hint(
    number: Number,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="EXERCISE", help="The exercise, or a function of it; by default the first unsolved exercise."
        ),
    ] = None,
) -> None:
    """Shows the next hint of an exercise.

    Hints lead from a nudge to nearly the answer. Example: rankzero hint 02 train_step
    """
    from rankzero.exercises.study import progress
    from rankzero.exercises.study import report_display as display

    with sentences():
        lab, chosen = _exercises(number, name)
        exercise = chosen[0] if name else progress.first_open(chosen, progress.of_lab(lab).points)
        if exercise is None:
            console.print(f"Every exercise of lab {lab.number} is solved: nothing is left to hint at.")
            return
        display.show_hint(exercise, progress.next_hint(lab, exercise), display.make_console())


@commands.command(rich_help_panel=LEARN)
def compare(
    number: Number,
    name: Annotated[
        str | None, typer.Argument(metavar="EXERCISE", help="An exercise that passes, or a function of it.")
    ] = None,
) -> None:
    """Shows the solution of an exercise beside your code.

    Your exercise must pass its checks; the two are shown as a diff.
    Where they differ, a common mistake in that place is named.

    Example: rankzero compare 02 evaluate
    """
    from rankzero.exercises.study import comparison, next_steps, workspace
    from rankzero.exercises.study import report_display as display

    with sentences():
        lab, (exercise, *others) = _exercises(number, name)
        if name is None and others:
            names = ", ".join(each.name for each in (exercise, *others))
            raise UserError(f"name the exercise to compare: lab {lab.number} has {names}.")
        comparison.require_passed(lab, exercise)
        screen = display.make_console()
        display.print_lines(comparison.comparison_lines(lab, exercise, workspace.work_file(lab), screen.width), screen)
        display.print_paragraph(next_steps.other_hints(lab, exercise), screen, style="dim")


@commands.command(rich_help_panel=LEARN)
def status(
    number: Annotated[
        str | None, typer.Argument(metavar="LAB", help="One lab, by exercises; by default all labs.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Shows your points in the exercises of all labs.

    They are the most points that each exercise has had so far.

    Example: rankzero status 02
    """
    from rankzero.exercises.checks.check import exercises_of
    from rankzero.exercises.study import report_display as display
    from rankzero.exercises.study.progress import LabProgress, kept_code, read_progress

    with sentences():
        progress = read_progress()
        labs = [find_lab_with_exercises(number)] if number else [lab for lab in all_labs() if lab.checks.exists()]
        totals = {lab.number: sum(exercise.points for exercise in exercises_of(lab)) for lab in labs}
    if as_json:
        shown = {lab.number: vars(progress[lab.number]) for lab in labs if lab.number in progress}
        print(json.dumps(shown, indent=2))
        return
    for lab in labs:
        lab_progress, total = progress.get(lab.number, LabProgress()), totals[lab.number]
        best, last = sum(lab_progress.points.values()), sum(lab_progress.last.values())
        state = f"{best} of {total} points" if lab.number in progress else "not started"
        bar = "#" * (20 * best // total)  # full with all points only
        console.print(f"{lab.number}  {escape(f'[{bar:<20}]')}  {state:<18}  {lab.title}")
        if lab_progress.last and last < best:
            text = f"Your file had {last} points when it was last checked; the best result of each exercise counts."
            console.print(f"    {text}")
            console.print(f"    The files that earned them: {path_from_here(kept_code(lab.number))}/", soft_wrap=True)
        if number:
            display.show_list(exercises_of(lab), lab_progress.points, display.make_console())
    if not any(lab.number in progress for lab in labs):
        console.print(f"\nBegin with: rankzero start {labs[0].number if number else '02'}")


@commands.command(rich_help_panel=LEARN)
def reset(
    number: Number,
    name: Annotated[
        str | None,
        typer.Argument(metavar="EXERCISE", help="Only the functions of this exercise; by default the whole file."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Replace without asking; the backup is still made.")] = False,
) -> None:
    """Replaces your copy of a lab's exercises by the stubs.

    It asks first, and a backup of your copy stays.

    Examples: rankzero reset 02, rankzero reset 02 train_step
    """
    from rankzero.exercises.study import workspace

    with sentences():
        lab, chosen = _exercises(number, name)
        file = workspace.work_file(lab)
        what = f"{chosen[0].name} in {path_from_here(file)}" if name else path_from_here(file)
        if not yes:
            console.print(f"The untouched exercise{' replaces' if name else 's replace'} {what}.")
            if input("Replace it, and forget its points and hints? [y/N]: ").strip().lower() not in ("y", "yes"):
                console.print("Nothing was changed.")
                return
        backup = workspace.reset_exercise(lab, chosen[0]) if name else workspace.reset(lab)
    console.print(f"Your copy is kept as {path_from_here(backup)}.")


def _exercises(number: str, name: str | None) -> "tuple[Lab, tuple[Exercise, ...]]":
    from rankzero.exercises.checks.check import exercises_of

    lab = find_lab_with_exercises(number)
    exercises = exercises_of(lab)
    if name is None:
        return lab, exercises
    chosen = tuple(exercise for exercise in exercises if name in (exercise.name, *exercise.functions))
    if not chosen:
        names = [exercise.name for exercise in exercises]
        known = dict.fromkeys([*names, *(function for exercise in exercises for function in exercise.functions)])
        parts = [each for each in known if name and name.lower() in each]  # `clip` for `clip_in_one_graph`
        near = parts[:3] or difflib.get_close_matches(name, known, n=1)
        meant = f"did you mean {' or '.join(near)}? It" if near else "it"
        raise UserError(f"lab {lab.number} has no exercise {name!r}: {meant} has {', '.join(names)}.")
    return lab, chosen
