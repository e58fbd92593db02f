"""Report display: prints reports, in colors on a terminal, as plain text in a file, at most 80 columns wide."""

import itertools
import textwrap

from rich.console import Console
from rich.text import Text

from rankzero.curriculum import Lab, path_from_here
from rankzero.errors import UserError
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.escape_text import escape_report
from rankzero.exercises.checks.report import Diagnosis, Report, Result
from rankzero.exercises.study.progress import first_open, of_lab

WORDS = {
    "pass": ("ok", "green"),
    "fail": ("FAIL", "red"),
    "error": ("error", "red"),
    "timeout": ("too slow", "red"),
    "oom": ("memory", "red"),
    "killed": ("died", "red"),
    "skipped": ("blocked", "dim"),
}
INDENT = 11


def make_console() -> Console:
    """Returns a console of at most 80 columns."""
    console = Console(highlight=False, markup=False)
    console.width = min(console.width, 80)
    return console


def show(report: Report, exercises: tuple[Exercise, ...], console: Console) -> None:
    """Prints a report, escaped: text from the learner's file controls neither the terminal nor rich."""
    report = escape_report(report)
    if report.unusable:
        _line("error", f"{report.unusable} Nothing can be checked before that is fixed.", console)
        console.print()
    for exercise in [] if report.unusable else exercises:
        results = [result for result in report.results if result.exercise == exercise.name]
        _show_exercise(exercise, results, console)
        for diagnosis in report.diagnoses:
            if diagnosis.exercise == exercise.name:
                _show_diagnosis(diagnosis, console)
        console.print()
    console.print(f"{report.points} of {report.max_points} points", style="bold", end="   ")
    console.print(Text(f"seed {report.seed}   {report.file}"), soft_wrap=True)


def _show_exercise(exercise: Exercise, results: list[Result], console: Console) -> None:
    console.print(f"{exercise.name}  {sum(result.points for result in results)}/{exercise.points}", style="bold")
    says = {check.name: check.says for check in exercise.checks}
    for (status, text), consecutive in itertools.groupby(results, lambda result: (result.status, result.text)):
        group = list(consecutive)
        if text and len(group) == len(results):  # one cause of all failures, such as an unwritten function
            _line(status, text.removeprefix("blocked "), console)
            continue
        for result in group:
            _line(status, says[result.check], console)
        paragraph(text, INDENT, console)
    printed = next((result.printed for result in results if result.printed.strip()), "")
    if printed:
        paragraph("your code printed:", INDENT, console, "dim")
        for line in printed.expandtabs().splitlines():
            room = console.width - INDENT - 2
            cut = line if len(line) <= room else f"{line[: room - 1]}…"
            console.print(Text(" " * (INDENT + 2) + cut), style="dim", soft_wrap=True)


def _show_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    paragraph(f"This is a known mistake: {diagnosis.name.replace('_', ' ')}.", 2, console, "yellow")
    paragraph(diagnosis.explanation, 2, console)
    paragraph(f"Read {diagnosis.read}", 2, console, "dim")


def show_next(lab: Lab, report: Report, console: Console) -> None:
    """Prints the next exercise or step after a report with all points; otherwise nothing."""
    if report.points < report.max_points:
        return
    try:
        exercise = first_open(exercises_of(lab), of_lab(lab).points | report.by_exercise())
    except UserError:
        paragraph(f"Lab {lab.number} is done. Next: Break It, in {path_from_here(lab.page)}", 0, console, "green")
    else:
        paragraph(f"Next: rankzero watch {lab.number} {exercise.name}", 0, console, "green")


def show_list(exercises: tuple[Exercise, ...], points: dict[str, int], console: Console) -> None:
    """Prints one line for each exercise: its points, minutes and difficulty."""
    for exercise in exercises:
        earned = points.get(exercise.name, 0)
        points_text = f"{earned} of {exercise.points} points"
        text = f"{exercise.name}   {points_text}, {exercise.minutes} minutes, {exercise.difficulty}"
        _line("pass" if earned == exercise.points else "fail", text, console)


def _line(status: str, text: str, console: Console) -> None:
    word, style = WORDS[status]
    first, *rest = textwrap.wrap(text, console.width - INDENT, break_on_hyphens=False) or [""]
    console.print(f"  {word:<{INDENT - 2}}", style=style, end="")
    console.print(Text(first), style="dim" if status == "skipped" else "", soft_wrap=True)
    for line in rest:
        console.print(Text(" " * INDENT + line), soft_wrap=True)


def paragraph(text: str, indent: int, console: Console, style: str = "") -> None:
    """Prints text, wrapped and indented."""
    lines = [textwrap.wrap(part.strip(), console.width - indent, break_on_hyphens=False) for part in text.splitlines()]
    for line in itertools.chain.from_iterable(lines):
        console.print(Text(" " * indent + line), style=style, soft_wrap=True)


def show_hint(exercise: Exercise, tier: int, console: Console) -> None:
    """Prints hint number `tier`, counted from 1."""
    console.print(f"{exercise.name}, hint {tier} of {len(exercise.hints)}", style="bold")
    paragraph(exercise.hints[tier - 1], 0, console)
    if tier < len(exercise.hints):
        console.print("Ask again for the next hint.", style="dim")
