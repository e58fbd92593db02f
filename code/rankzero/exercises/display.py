"""Shows reports to people: in colors on a terminal, in plain words in a log file, at most 80 columns wide."""

import textwrap

from rich.console import Console

from rankzero.exercises.check import Exercise
from rankzero.exercises.runner import Diagnosis, Report, Result

WORDS = {
    "pass": ("ok", "green"),
    "fail": ("no", "red"),
    "error": ("error", "red"),
    "timeout": ("too slow", "red"),
    "oom": ("memory", "red"),
    "killed": ("died", "red"),
    "skipped": ("waits", "dim"),
}
INDENT = 11


def make_console() -> Console:
    """A console of at most 80 columns."""
    console = Console(highlight=False, markup=False)
    console.width = min(console.width, 80)
    return console


def show(report: Report, exercises: tuple[Exercise, ...], console: Console) -> None:
    """Prints a whole report."""
    diagnoses = {diagnosis.exercise: diagnosis for diagnosis in report.diagnoses}
    for exercise in exercises:
        results = [result for result in report.results if result.exercise == exercise.name]
        _show_exercise(exercise, results, diagnoses.get(exercise.name), console)
        console.print()
    console.print(f"{report.points} of {report.max_points} points", style="bold", end="   ")
    console.print(f"seed {report.seed}   {report.file}", soft_wrap=True)


def _show_exercise(exercise: Exercise, results: list[Result], diagnosis: Diagnosis | None, console: Console) -> None:
    console.print(f"{exercise.name}  {sum(result.points for result in results)}/{exercise.points}", style="bold")
    says = {check.name: check.says for check in exercise.checks}
    texts = {result.text for result in results}
    if len(texts) == 1 and "" not in texts:
        # One cause for all of it, such as a function that is not written yet: say it once.
        _line(results[0].status, texts.pop(), console)
    else:
        for result in results:
            _line(result.status, says[result.check], console)
            if result.text:
                _paragraph(result.text, INDENT, console)
    printed = next((result.printed.strip() for result in results if result.printed.strip()), "")
    if printed:
        _paragraph(f"your code printed: {printed.splitlines()[0][:200]}", INDENT, console, "dim")
    if diagnosis:
        _paragraph(f"This is a known mistake: {diagnosis.name.replace('_', ' ')}.", 2, console, "yellow")
        _paragraph(diagnosis.explanation, 2, console)
        _paragraph(f"Read {diagnosis.read}", 2, console, "dim")


def _line(status: str, text: str, console: Console) -> None:
    word, style = WORDS[status]
    first, *rest = textwrap.wrap(text, console.width - INDENT) or [""]
    console.print(f"  {word:<{INDENT - 2}}", style=style, end="")
    console.print(first, style="dim" if status == "skipped" else "", soft_wrap=True)
    for line in rest:
        console.print(" " * INDENT + line, soft_wrap=True)


def _paragraph(text: str, indent: int, console: Console, style: str = "") -> None:
    for line in textwrap.wrap(text, console.width - indent):
        console.print(" " * indent + line, style=style, soft_wrap=True)


def show_hint(exercise: Exercise, tier: int, console: Console) -> None:
    """Prints the hint of that tier, counted from 1."""
    console.print(f"{exercise.name}, hint {tier} of {len(exercise.hints)}", style="bold")
    _paragraph(exercise.hints[tier - 1], 0, console)
    if tier < len(exercise.hints):
        console.print("Ask again for the next one.", style="dim")
