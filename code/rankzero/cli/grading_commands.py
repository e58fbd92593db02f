"""The commands for instructors: grade and feedback."""

import functools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from rankzero.cli.terminal import TEACH, Json, console, fail, sentences
from rankzero.curriculum import all_labs, find_lab, find_lab_with_exercises, path_from_here
from rankzero.errors import UserError
from rankzero.grading.grade import Grade, read_grade
from rankzero.grading.intake.safe_names import printable, safe_name
from rankzero.grading.intake.time_notes import other_notes, time_notes
from rankzero.grading.intake.timestamps import parse_time
from rankzero.learn.machine.cores import usable_cores

if TYPE_CHECKING:
    from rankzero.grading.class_run import ClassRun, Outcome
    from rankzero.grading.grading_tasks import Tasks
    from rankzero.grading.report.differences import Difference

MAX_CHANGES, MAX_NOTES = 20, 5  # lines
LARGE = 20  # submissions, from which progress is worth a line
commands = typer.Typer()


# Panels of the help, each with an example.
_RULES = 'Late work, as in --due "2026-12-01 23:59+01:00" --late-percent-per-day 10'
_AGAIN = "Later runs, as in rankzero grade submissions --out graded --resume"
_SEEDS = "Seeds, as in --seed 7 --seed 11 --seed 13"
_MACHINE = "This machine, as in --jobs 8 --time-limit 60"


@commands.command(rich_help_panel=TEACH)
def grade(
    submissions: Annotated[Path | None, typer.Argument(
        help="A folder or an archive: with one folder, archive or file per student, or as a course system made it: "
             "Canvas, Moodle, Blackboard, Brightspace, ILIAS, Teams, Sakai, Gradescope, GitHub, nbgrader.")] = None,
    labs: Annotated[list[str] | None, typer.Option(
        "--lab", metavar="NN", help="A lab's number, such as 02; repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A new folder for grades and reports.")] = None,
    roster: Annotated[Path | None, typer.Option(
        metavar="CSV", help="The class: student_id, last_name, first_name, email, or a course system's list.")] = None,
    anonymous: Annotated[bool | None, typer.Option(
        "--anonymous/--named", help="Number the students on pages; key.csv says who is who.")] = None,
    due: Annotated[str | None, typer.Option(
        metavar="TIME", rich_help_panel=_RULES, help="The deadline; without +01:00 in this machine's time.")] = None,
    late_percent_per_day: Annotated[float | None, typer.Option(
        min=0, max=100, metavar="PERCENT", rich_help_panel=_RULES,
        help="The share of the points that each late day costs.")] = None,
    late_max_days: Annotated[int | None, typer.Option(
        min=0, max=366, metavar="DAYS", rich_help_panel=_RULES,
        help="Later work gets no points; 0 refuses any late work.")] = None,
    late_grace_hours: Annotated[float | None, typer.Option(
        min=0, max=8784, metavar="HOURS", rich_help_panel=_RULES,
        help="Time after the deadline without loss of points.")] = None,
    resume: Annotated[bool, typer.Option(
        "--resume", rich_help_panel=_AGAIN,
        help="Grade new and changed files, and again what changed checks decide. All else stays.")] = False,
    changed: Annotated[bool, typer.Option(
        "--changed", rich_help_panel=_AGAIN,
        help="Changed checks only, on the files in OUT: rankzero grade --out graded --changed")] = False,
    checks: Annotated[list[str] | None, typer.Option(
        "--check", metavar="NAME", rich_help_panel=_AGAIN,
        help="Grade one check again for all: --check train_step/loss, or all of an exercise: --check train_step; "
             "repeatable.")] = None,
    students: Annotated[list[str] | None, typer.Option(
        "--student", metavar="ID", rich_help_panel=_AGAIN, help="Only this student; repeatable.")] = None,
    retime: Annotated[bool, typer.Option(
        "--retime", rich_help_panel=_AGAIN,
        help="Take the times of hand-in from SUBMISSIONS again. Otherwise those of the first run stay.")] = False,
    seeds: Annotated[int | None, typer.Option(
        min=1, max=20, metavar="N", rich_help_panel=_SEEDS,
        help="A check must pass on N random seeds; 3 unless given.")] = None,
    seed: Annotated[list[int] | None, typer.Option(
        min=0, metavar="SEED", rich_help_panel=_SEEDS,
        help="Use this seed instead, which a page names, to repeat a grade; repeatable.")] = None,
    jobs: Annotated[int, typer.Option(
        min=1, metavar="N", rich_help_panel=_MACHINE, help="Submissions graded side by side.")] = usable_cores(),
    time_limit: Annotated[float, typer.Option(
        min=1, metavar="S", rich_help_panel=_MACHINE,
        help="Seconds of work that an exercise of a submission may take.")] = 60.0,
    memory: Annotated[int, typer.Option(
        min=256, metavar="MIB", rich_help_panel=_MACHINE,
        help="MiB that all processes of a submission may take.")] = 2048,
    trusted: Annotated[bool, typer.Option(
        "--trusted", rich_help_panel=_MACHINE, help="No sandbox: for files that you would run yourself.")] = False,
    executor: Annotated[Literal["local", "ray"], typer.Option(
        rich_help_panel=_MACHINE, help="Grade on this machine or a Ray cluster.")] = "local",
    verify: Annotated[bool, typer.Option(
        "--verify", rich_help_panel=_MACHINE,
        help="Prove the grader here, by references, stubs, mistakes and attacks: rankzero grade --verify --lab 02")
    ] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Grades a class in a sandbox.

    OUT gets index.html for you, a page for each student, and grades.csv.

    rankzero grade submissions --lab 02 --roster roster.csv --out graded

    OUT/adjustments.csv is yours: its points and deadlines count in every run.
    OUT/differences.csv lists each change of a grade, before it is made.
    Without a --late option, each lab's lab.toml says what late work loses. Exit
    code 1 if a submission could not be graded.
    Guide: handbook/for-instructors.md
    """
    if verify:
        _verify(labs, jobs, resume)
    with sentences():
        continues = resume or changed or checks or students
        if out is None or not (continues or (submissions and labs)):
            fail("name the submissions, a --lab and an --out: rankzero grade submissions/ --lab 02 --out graded")
        keys = ("percent_per_day", "max_days", "grace_hours")
        late = zip(keys, (late_percent_per_day, late_max_days, late_grace_hours), strict=True)
        from rankzero.grading.class_run import ClassRun, grade_class

        run = ClassRun(
            out,
            submissions,
            labs or (),
            _rules(due, {key: value for key, value in late if value is not None}, roster, anonymous),
            resume,
            changed,
            checks or (),
            students or (),
            retime,
            seeds,
            seed or (),
            {"time_limit": time_limit, "memory": memory, "trusted": trusted},
            jobs,
            executor,
        )
        announce = (lambda tasks: None) if as_json else functools.partial(_announce, run=run)
        outcome = grade_class(run, functools.partial(_progress, quiet=as_json), announce)
    if as_json:
        print(json.dumps(_summary(outcome, out), indent=2))
    else:
        _print_changes(outcome.changes, out)
        _print_summary(_summary(outcome, out))
    raise typer.Exit(int(any(grade.trouble for grade in outcome.grades)))


def _rules(due: str | None, late: dict[str, float], roster: Path | None, anonymous: bool | None) -> dict[str, Any]:
    """Returns the rules among these options, with absolute times and paths: --resume may run elsewhere and later."""
    rules = {
        "due": parse_time(due).isoformat() if due else None,
        "late": late,
        "roster": str(roster.resolve()) if roster else None,
        "anonymous": anonymous,
    }
    return {name: value for name, value in rules.items() if value not in (None, {})}


def _announce(tasks: "Tasks", run: "ClassRun") -> None:
    """Prints the checks that are graded again, before they are."""
    if run.submissions and (run.changed or run.checks):
        console.print(f"{run.submissions} is not read: the files in {run.out} are graded again.", markup=False)
    for (lab, check), count in sorted(tasks.again.items()):
        who = "1 submission is" if count == 1 else f"{count} submissions are"
        why = "" if run.checks else " has changed:"
        console.print(f"Lab {lab}, {check}{why or ':'} {who} graded on it again.", markup=False)
    if run.changed and not tasks.again:
        console.print("No probe, judge or reference has changed since these grades were made.")


def _print_changes(changes: "Sequence[Difference]", out: Path) -> None:
    """Prints the differences from the grades before, equal ones of several students on one line."""
    from rankzero.grading.report.differences import FILE, grouped

    if not changes:
        return
    table = Table("check", Column("before", justify="right"), Column("after", justify="right"), "who", "why", box=None)
    groups = grouped(changes)
    for change, count in groups[:MAX_CHANGES]:
        who = printable(change.student.student_id, 24) if count == 1 else f"{count} students"
        cells = (f"{change.lab} {change.what}", change.before or "none", change.after or "none", who, change.reason)
        table.add_row(*map(escape, cells))
    students = len({change.student.student_id for change in changes})
    console.print(f"Changes of {'1 student' if students == 1 else f'{students} students'}:")
    console.print(table)
    if len(groups) > MAX_CHANGES:
        console.print(f"and {len(groups) - MAX_CHANGES} more")
    console.print(f"  {path_from_here(out / FILE)}   every change of every run", markup=False)


@commands.command(rich_help_panel=TEACH)
def feedback(
    out: Annotated[Path, typer.Argument(help="The folder that `rankzero grade` wrote.")],
    student: Annotated[str, typer.Argument(help="The student's id, as in grades.csv.")],
    labs: Annotated[list[str] | None, typer.Option("--lab", help="Only this lab; repeatable.")] = None,
) -> None:
    """Prints one student's feedback.

    Example: rankzero feedback graded ada --lab 02
    """
    from rankzero.grading.report.terminal_feedback import show

    with sentences():
        numbers = [find_lab(number).number for number in labs] if labs else [lab.number for lab in all_labs()]
        files = [out / "grades" / number / f"{safe_name(student)}.json" for number in numbers]
        files = [file for file in files if file.exists()]
        if not (out / "grades").is_dir():
            raise UserError(f"{out} holds no grades: name the folder that `rankzero grade` wrote.")
        if not files:
            subject = f"lab {' or '.join(numbers)} of {student!r}" if labs else repr(student)
            raise UserError(f"{out} holds no grade of {subject}: its grades.csv lists labs and students' ids.")
        try:
            grades = [read_grade(file) for file in files]
        except ValueError as error:
            raise UserError(str(error)) from None
    for grade in grades:
        show(grade, console)


def _verify(labs: list[str] | None, jobs: int, resume: bool) -> None:
    from rankzero.grading.verify_grader import verify

    with sentences():
        chosen = [lab for lab in all_labs() if lab.checks.exists()]
        if labs:
            chosen = [find_lab_with_exercises(number) for number in labs]
        raise typer.Exit(verify(chosen, jobs, console, functools.partial(_progress, quiet=False), resume))


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Callable[[Grade | None, bool], None]]:
    """Shows a bar with rate and time left, or ten lines where output is no terminal. Yields the function to call with
    each grade, or None, and whether an earlier run has made it. After Ctrl-C, prints the command that goes on.
    """
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    began, graded = time.monotonic(), 0
    with Progress(TextColumn("grading"), *columns, console=console, disable=quiet, transient=True) as bar:
        task = bar.add_task("", total=total, rate="")

        def advance(grade: Grade | None, kept: bool) -> None:
            nonlocal graded
            graded += not kept
            rate = f"{60 * graded / (time.monotonic() - began):.0f} per minute" if graded else ""
            bar.update(task, advance=1, rate=rate)
            done = int(bar.tasks[0].completed)
            line = total >= LARGE and not kept and 10 * done // total > 10 * (done - 1) // total
            if line and not (quiet or console.is_terminal):
                console.print(f"{done} of {total} graded, {rate}", markup=False)

        try:
            yield advance
        except KeyboardInterrupt:
            count = int(bar.tasks[0].completed)
            console.print(f"Stopped: {count} of {total} are graded and kept; the same command with --resume goes on.")
            raise


def _summary(outcome: "Outcome", out: Path) -> dict[str, Any]:
    grades = outcome.grades
    graded = [grade for grade in grades if grade.report]
    troubles = {
        f"{printable(grade.submission.student.student_id)}, lab {grade.submission.lab}": grade.trouble
        for grade in grades
        if grade.trouble
    }
    return {
        "out": str(out),
        "graded": len(graded),
        "kept": outcome.kept,
        "missing": sum(grade.submission.file is None and not grade.submission.doubtful for grade in grades),
        "not gradable": troubles,
        "to decide": {
            f"{printable(grade.submission.student.student_id)}, lab {grade.submission.lab}": grade.submission.notes[0]
            for grade in grades
            if grade.gradable and not grade.counts
        },
        "times": dict(Counter(note for grade in grades for note in time_notes(grade.submission))),
        "flagged": sum(bool(grade.flags or other_notes(grade.submission)) for grade in grades if grade.counts),
        "points": sum(grade.points for grade in graded),
        "max_points": sum(grade.max_points for grade in graded),
        "seeds": len(grades[0].seeds) if grades else 0,
        "changed": len({change.student.student_id for change in outcome.changes}),
        "seconds": round(outcome.seconds, 1),
    }


def _print_summary(summary: dict[str, Any]) -> None:
    for submission, trouble in summary["not gradable"].items():
        console.print(f"Not graded: {submission}: {trouble}", markup=False)
    for submission, note in list(summary["to decide"].items())[:MAX_NOTES]:
        console.print(f"To decide: {submission}: {note}", markup=False)
    if len(summary["to decide"]) > MAX_NOTES:
        console.print(f"and {len(summary['to decide']) - MAX_NOTES} more to decide, on the class page")
    for note, count in summary["times"].items():
        console.print(f"{'1 submission' if count == 1 else f'{count} submissions'}: {note}", markup=False)
    sentence = f"{summary['graded']} graded in {summary['seconds']:.0f} s"
    if summary["kept"]:
        sentence = f"{summary['graded']} grades, of which {summary['kept']} are kept, in {summary['seconds']:.0f} s"
    if summary["missing"]:
        sentence += f", {summary['missing']} missing"
    if summary["flagged"]:
        sentence += f", {summary['flagged']} to look at"
    console.print(f"{sentence}.")
    folder = Path(summary["out"])
    console.print(f"  {path_from_here(folder / 'index.html')}   the class", markup=False)
    console.print(f"  {path_from_here(folder / 'grades.csv')}   the gradebook", markup=False)
