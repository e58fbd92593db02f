"""The commands for instructors: grade and feedback."""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rankzero.cli.terminal import Json, console, fail, sentences
from rankzero.curriculum import LatePolicy, all_labs, find_lab, find_lab_with_exercises, path_from_here, validate
from rankzero.errors import UserError
from rankzero.grading.grade import Grade, read_grade
from rankzero.grading.intake.safe_names import printable, safe_name
from rankzero.grading.intake.timestamps import parse_time

commands = typer.Typer()


@commands.command()
def grade(
    submissions: Annotated[
        Path | None,
        typer.Argument(help="A folder or an archive: with one folder, archive or file per student, or as Gradescope, "
                            "GitHub Classroom, Moodle, Canvas or nbgrader export it."),
    ] = None,
    labs: Annotated[list[str] | None, typer.Option("--lab", help="A lab's number, such as 02; repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder for grades and reports.")] = None,
    roster: Annotated[
        Path | None, typer.Option(help="A CSV of the class: student_id, last_name, first_name, email.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Submissions graded at the same time.")] = os.cpu_count() or 1,
    time_limit: Annotated[float, typer.Option(min=1, help="Seconds that one submission to one lab may take.")] = 120.0,
    memory: Annotated[int, typer.Option(min=256, help="MiB that all processes of a submission may take.")] = 2048,
    due: Annotated[str | None, typer.Option(help='The deadline, as "2026-12-01 23:59+01:00".')] = None,
    late_percent_per_day: Annotated[
        float | None, typer.Option(min=0, max=100, help="Percent of the points that each late day costs.")
    ] = None,
    late_max_days: Annotated[
        int | None, typer.Option(min=0, max=366, help="Days late after which submissions get no points; 0 refuses any.")
    ] = None,
    late_grace_hours: Annotated[
        float | None, typer.Option(min=0, max=8784, help="Hours after the deadline without loss of points.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=20, help="Random seeds per student, on each of which a check must pass; 3.")
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(min=0, help="Grade on this seed instead, as a page names it; repeatable.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in OUT: grade new or changed files only.")
    ] = False,
    trusted: Annotated[
        bool, typer.Option("--trusted", help="No sandbox: for submissions that you would run yourself.")
    ] = False,
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="Grade on this machine or a Ray cluster.")
    ] = "local",
    verify: Annotated[
        bool, typer.Option("--verify", help="Prove the grader on this machine: references, stubs, mistakes, attacks.")
    ] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Grades a class in a sandbox: OUT then holds index.html for you, a page for each student, and grades.csv.

    rankzero grade submissions/ --lab 02 --roster roster.csv --out graded

    Without a --late option, each lab's lab.toml says what late work loses. Exit code 1 if something could not be
    graded. The guide: handbook/for-instructors.md
    """
    if verify:
        _verify(labs, jobs)
    with sentences():
        if submissions is None or not labs or out is None:
            fail("name the submissions, a --lab and an --out: rankzero grade submissions/ --lab 02 --out graded")
        keys = ("percent_per_day", "max_days", "grace_hours")
        late = zip(keys, (late_percent_per_day, late_max_days, late_grace_hours), strict=True)
        rules = _rules(due, {key: value for key, value in late if value is not None}, roster)
        options = {"time_limit": time_limit, "memory": memory, "trusted": trusted}
        grades, seconds = _grade_class(
            submissions,
            labs,
            out,
            rules,
            (seed or (), seeds),
            resume,
            options,
            jobs=jobs,
            executor=executor,
            quiet=as_json,
        )
    summary = _summary(grades, seconds, out)
    if as_json:
        print(json.dumps(summary, indent=2))
    else:
        _print_summary(summary)
    raise typer.Exit(int(any(grade.trouble for grade in grades)))


def _rules(due: str | None, late: dict[str, float], roster: Path | None) -> dict[str, Any]:
    """Returns the rules among these options, with absolute times and paths: --resume may run elsewhere and later."""
    rules = {
        "due": parse_time(due).isoformat() if due else None,
        "late": late,
        "roster": str(roster.resolve()) if roster else None,
    }
    return {name: value for name, value in rules.items() if value}


def _grade_class(
    submissions: Path,
    numbers: Sequence[str],
    out: Path,
    rules: dict[str, Any],
    seeds: tuple[Sequence[int], int | None],
    resume: bool,
    options: dict[str, Any],
    *,
    jobs: int,
    executor: str,
    quiet: bool,
) -> tuple[list[Grade], float]:
    """Writes grades and reports to `out`. Returns all grades, and the seconds that grading took."""
    from rankzero.grading import batch, run_file
    from rankzero.grading.grader import GradingSettings
    from rankzero.grading.intake.collect import collect
    from rankzero.grading.intake.roster import read_roster
    from rankzero.grading.sandbox.sandbox_client import require_sandbox

    chosen = [find_lab_with_exercises(number) for number in numbers]
    if not options["trusted"]:
        require_sandbox()
    with run_file.lock_folder(out, resume) as earlier_run:
        rules = {**earlier_run.get("rules", {}), **rules}
        due = parse_time(rules["due"]) if "due" in rules else None
        policy = validate(LatePolicy, rules["late"], out / run_file.RUN_FILE, "late") if "late" in rules else None
        roster = read_roster(Path(rules["roster"])) if "roster" in rules else None
        labs = sorted({*chosen, *map(find_lab, earlier_run.get("labs", []))}, key=lambda lab: lab.number)
        pool = run_file.choose_pool(earlier_run, *seeds)
        settings = GradingSettings(tuple(lab.number for lab in labs), pool, **options)
        collected = collect(submissions, labs, out, roster)
        run_file.write_run(settings, rules, out)
        began = time.monotonic()
        with _progress(len(collected), quiet) as progress:
            grades = batch.grade_all(collected, settings, out, jobs=jobs, executor=executor, progress=progress)
        seconds = time.monotonic() - began
        grades = batch.with_flags(batch.with_lateness(grades, due, policy))
        # The pages show seeds, so that from here on the run needs others.
        run_file.write_run(replace(settings, pool=replace(pool, generation=pool.generation + 1)), rules, out)
        batch.write_reports(grades, out, due)
    return grades, seconds


@commands.command()
def feedback(
    out: Annotated[Path, typer.Argument(help="The folder that `rankzero grade` wrote.")],
    student: Annotated[str, typer.Argument(help="The student's id, as in grades.csv.")],
    labs: Annotated[list[str] | None, typer.Option("--lab", help="Only this lab; repeatable.")] = None,
) -> None:
    """Prints one student's feedback. Example: rankzero feedback graded/ ada --lab 02"""
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


def _verify(labs: list[str] | None, jobs: int) -> None:
    from rankzero.grading.verify_grader import verify

    with sentences():
        chosen = [lab for lab in all_labs() if lab.checks.exists()]
        if labs:
            chosen = [find_lab_with_exercises(number) for number in labs]
        raise typer.Exit(verify(chosen, jobs, console))


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Callable[[Grade, bool], None]]:
    """Shows a bar with rate and time left. Yields the function to call with each grade and with whether that grade was
    kept from an earlier run. After Ctrl-C, prints the command that continues the run.
    """
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
    began, graded = time.monotonic(), 0
    with Progress(TextColumn("grading"), *columns, console=console, disable=quiet, transient=True) as bar:
        task = bar.add_task("", total=total, rate="")

        def advance(grade: Grade, kept: bool) -> None:
            nonlocal graded
            graded += not kept
            rate = f"{60 * graded / (time.monotonic() - began):.0f} per minute" if graded else ""
            bar.update(task, advance=1, rate=rate)

        try:
            yield advance
        except KeyboardInterrupt:
            count = int(bar.tasks[0].completed)
            console.print(f"Stopped: {count} of {total} are graded and kept; the same command with --resume goes on.")
            raise


def _summary(grades: Sequence[Grade], seconds: float, out: Path) -> dict[str, Any]:
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
        "seeds": len(grades[0].seeds) if grades else 0,
        "seconds": round(seconds, 1),
    }


def _print_summary(summary: dict[str, Any]) -> None:
    for submission, trouble in summary["not gradable"].items():
        console.print(f"Not graded: {submission}: {trouble}", markup=False)
    sentence = f"{summary['graded']} graded in {summary['seconds']:.0f} s"
    if summary["missing"]:
        sentence += f", {summary['missing']} missing"
    if summary["flagged"]:
        sentence += f", {summary['flagged']} to look at"
    console.print(f"{sentence}.")
    folder = Path(summary["out"])
    console.print(f"  {path_from_here(folder / 'index.html')}   the class", markup=False)
    console.print(f"  {path_from_here(folder / 'grades.csv')}   the gradebook", markup=False)
