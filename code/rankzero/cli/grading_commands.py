"""The commands for instructors: grade and feedback. Each a few lines that call this room."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rankzero.cli.terminal import Json, console, fail, sentences
from rankzero.curriculum import Lab, all_labs, find_lab, path_from_here
from rankzero.errors import UserError

if TYPE_CHECKING:
    from rankzero.grading.grade import Grade

commands = typer.Typer()


class Executor(StrEnum):
    """Who grades."""

    LOCAL = "local"
    RAY = "ray"


@commands.command()
def grade(
    submissions: Annotated[
        Path | None,
        typer.Argument(help="A folder or an archive: one folder, archive or file a student, or what Gradescope, "
                            "GitHub Classroom, Moodle, Canvas or nbgrader hand over."),
    ] = None,
    labs: Annotated[list[str] | None, typer.Option("--lab", help="A lab's number, such as 02; repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder for grades and reports.")] = None,
    roster: Annotated[
        Path | None, typer.Option(help="A CSV with student_id, last_name, first_name, email: who is in the class.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Submissions side by side.")] = os.cpu_count() or 1,
    time_limit: Annotated[float, typer.Option(min=1, help="Seconds that one submission to one lab may take.")] = 120.0,
    memory: Annotated[int, typer.Option(min=256, help="MiB that all processes of a submission may take.")] = 2048,
    due: Annotated[str | None, typer.Option(help='When it was due, as "2026-12-01 23:59+01:00".')] = None,
    late: Annotated[
        str | None, typer.Option(help='What lateness costs, as "10% a day, at most 3 days"; else what lab.toml says.')
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Grade with the random inputs of an earlier run.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with OUT, its seed, roster and deadline: what is new or changed.")
    ] = False,
    trusted: Annotated[
        bool, typer.Option("--trusted", help="No sandbox: for submissions that you would run yourself.")
    ] = False,
    executor: Annotated[Executor, typer.Option(help="Who grades: this machine, or a Ray cluster.")] = Executor.LOCAL,
    verify: Annotated[
        bool, typer.Option("--verify", help="Prove the grader on this machine: references, stubs, mistakes, attacks.")
    ] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Grades a class in a sandbox: OUT then holds index.html for you, a page for each student, and grades.csv.

    rankzero grade submissions/ --lab 02 --roster roster.csv --out graded

    Exit code 1 if something could not be graded. The guide: handbook/for-instructors.md
    """
    if verify:
        _verify(labs, jobs)
    from rankzero.grading import batch
    from rankzero.grading.grader import GradingSettings
    from rankzero.grading.intake.collect import collect
    from rankzero.grading.intake.roster import read_roster
    from rankzero.grading.intake.timestamps import parse_time
    from rankzero.grading.sandbox.sandbox_client import require_sandbox

    with sentences():
        if submissions is None or not labs or out is None:
            fail("name the submissions, a --lab and an --out: rankzero grade submissions/ --lab 02 --out graded")
        chosen = [_gradable(number) for number in labs]
        given = _rules(due, late, roster)
        if not trusted:
            require_sandbox()
        with batch.lock_folder(out, resume) as earlier_run:
            rules = {**earlier_run.get("rules", {}), **given}
            when = parse_time(rules["due"]) if "due" in rules else None
            students = read_roster(Path(rules["roster"])) if "roster" in rules else None
            chosen = sorted({*chosen, *map(find_lab, earlier_run.get("labs", []))}, key=lambda lab: lab.number)
            settings = GradingSettings(
                tuple(lab.number for lab in chosen), batch.choose_seed(earlier_run, seed), time_limit, memory, trusted
            )
            found = collect(submissions, chosen, out, students)
            batch.write_run(settings, rules, out)
            began = time.monotonic()
            with _progress(len(found), quiet=as_json) as done:
                grades = batch.grade_all(found, settings, out, jobs=jobs, executor=executor.value, progress=done)
            seconds = time.monotonic() - began
            grades = batch.with_flags(batch.with_lateness(grades, when, rules.get("late")))
            batch.write_reports(grades, out, when)
    summary = _summary(grades, seconds, out)
    if as_json:
        print(json.dumps(summary, indent=2))
    else:
        _tell(summary)
    raise typer.Exit(int(any(grade.trouble for grade in grades)))


@commands.command()
def feedback(
    out: Annotated[Path, typer.Argument(help="The folder that `rankzero grade` wrote.")],
    student: Annotated[str, typer.Argument(help="The student's id, as in grades.csv.")],
    labs: Annotated[list[str] | None, typer.Option("--lab", help="Only this lab; may be repeated.")] = None,
) -> None:
    """Prints what one student is told."""
    from rankzero.grading.grade import read_grade
    from rankzero.grading.intake.safe_names import safe_name
    from rankzero.grading.report.terminal_feedback import show

    with sentences():
        numbers = [find_lab(number).number for number in labs] if labs else [lab.number for lab in all_labs()]
        files = [out / "grades" / number / f"{safe_name(student)}.json" for number in numbers]
        files = [file for file in files if file.exists()]
        if not (out / "grades").is_dir():
            raise UserError(f"{out} holds no grades: name the folder that `rankzero grade` wrote.")
        if not files:
            what = f"lab {' or '.join(numbers)} of {student!r}" if labs else repr(student)
            raise UserError(f"{out} holds no grade of {what}: grades.csv in it lists labs and students' ids.")
        try:
            grades = [read_grade(file) for file in files]
        except ValueError as error:
            raise UserError(str(error)) from None
    for one in grades:
        show(one, console)


def _rules(due: str | None, late: str | None, roster: Path | None) -> dict[str, str]:
    """What is given of these, such that it means the same on another day and from another folder."""
    from rankzero.grading.intake.late_policy import parse_policy
    from rankzero.grading.intake.timestamps import parse_time

    if late:
        parse_policy(late)
    given = {
        "due": parse_time(due).isoformat() if due else None,
        "late": late,
        "roster": str(roster.resolve()) if roster else None,
    }
    return {name: value for name, value in given.items() if value}


def _verify(labs: list[str] | None, jobs: int) -> None:
    from rankzero.grading.sandbox.sandbox_client import require_sandbox
    from rankzero.grading.verify_grader import verify

    with sentences():
        chosen = [_gradable(number) for number in labs] if labs else [lab for lab in all_labs() if lab.checks.exists()]
        require_sandbox()
        raise typer.Exit(verify(chosen, jobs, console))


def _gradable(number: str) -> Lab:
    lab = find_lab(number)
    if not lab.checks.exists():
        raise UserError(f"lab {lab.number} has no exercises yet.")
    return lab


@contextmanager
def _progress(total: int, quiet: bool) -> "Iterator[Any]":
    """A bar with rate and time left; after Ctrl-C, a sentence on how to go on."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    began, fresh = time.monotonic(), 0
    with Progress(TextColumn("grading"), *columns, console=console, disable=quiet, transient=True) as bar:
        task = bar.add_task("", total=total, rate="")

        def done(grade: "Grade", before: bool) -> None:
            nonlocal fresh
            fresh += not before
            rate = f"{60 * fresh / (time.monotonic() - began):.0f} a minute" if fresh else ""
            bar.update(task, advance=1, rate=rate)

        try:
            yield done
        except KeyboardInterrupt:
            at = int(bar.tasks[0].completed)
            console.print(f"Stopped: {at} of {total} are graded and kept; the same command with --resume goes on.")
            raise


def _summary(grades: "Sequence[Grade]", seconds: float, out: Path) -> dict[str, Any]:
    from rankzero.grading.intake.safe_names import printable

    graded = [grade for grade in grades if grade.report]
    troubles = {
        f"{printable(grade.submission.student.student_id)}, lab {grade.submission.lab}": grade.trouble
        for grade in grades
        if grade.trouble
    }
    return {
        "out": str(out),
        "graded": len(graded),
        "missing": sum(grade.submission.file is None for grade in grades),
        "not gradable": troubles,
        "flagged": sum(bool(grade.flags or grade.submission.notes) for grade in grades),
        "points": sum(grade.points for grade in graded),
        "max_points": sum(grade.max_points for grade in graded),
        "seed": grades[0].seed if grades else None,
        "seconds": round(seconds, 1),
    }


def _tell(summary: dict[str, Any]) -> None:
    for who, trouble in summary["not gradable"].items():
        console.print(f"Not graded: {who}: {trouble}", markup=False)
    told = f"{summary['graded']} graded in {summary['seconds']:.0f} s"
    if summary["missing"]:
        told += f", {summary['missing']} missing"
    if summary["flagged"]:
        told += f", {summary['flagged']} to look at"
    console.print(f"{told}.   seed {summary['seed']}")
    folder = Path(summary["out"])
    console.print(f"  {path_from_here(folder / 'index.html')}   the class", markup=False)
    console.print(f"  {path_from_here(folder / 'grades.csv')}   the gradebook", markup=False)
