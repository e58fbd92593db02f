"""Report display: prints reports, in colors on a terminal, as plain text in a file, at most 80 columns wide."""

import itertools
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from rankzero.curriculum import path_from_here
from rankzero.exercises.checks.check import Exercise
from rankzero.exercises.checks.escape_text import escape_report
from rankzero.exercises.checks.report import Report, Result
from rankzero.exercises.study import exercise_display
from rankzero.exercises.study.exercise_display import WORDS, failure_lines, state, summary_lines
from rankzero.exercises.study.text_lines import paragraph, verdict

NAME_COLUMNS = 40  # of the file's name, where a report has to fit on a screen


def make_console() -> Console:
    """Returns a console of at most 80 columns."""
    console = Console(highlight=False, markup=False)
    console.width = min(console.width, 80)
    return console


def show(report: Report, exercises: tuple[Exercise, ...], console: Console) -> None:
    """Prints a report, escaped: text from the learner's file controls neither the terminal nor rich.

    First a line for each exercise, then details; the exercise that fails first is the last: no scrolling to read it.
    """
    report = _named_from_here(report)
    print_lines(_beginning(report, exercises, console.width), console)
    for exercise in reversed(_detailed(report, exercises)):
        print_lines([Text(), *_failure(report, exercise, console.width)], console)


def show_on_screen(
    report: Report, exercises: tuple[Exercise, ...], console: Console, rows: int, options: str = ""
) -> None:
    """Prints a report in at most `rows` rows: of the exercises that fail the first, shortened until it fits.

    `options` are those of the command that shows what is left out, besides the seed.
    """
    report = _named_from_here(report)
    width = console.width
    short_name = report.file if len(report.file) <= NAME_COLUMNS else f"…{report.file[-NAME_COLUMNS:]}"
    named = replace(report, file=short_name)
    lines = beginning = _beginning(named, exercises, width)
    if detailed := _detailed(report, exercises):
        command = f"rankzero check {report.lab} {detailed[0].name} --seed {report.seed}{options}"
        note = paragraph(f"Shortened; all of it: {command}", width, style="dim")
        folded = _folded(named, exercises, width)
        for above, form in itertools.product((beginning, folded), range(exercise_display.FORMS)):
            shortened = form > 0 or above is folded
            lines = [*above, *note * shortened, Text(), *_failure(report, detailed[0], width, form)]
            if len(lines) <= rows:
                break
        else:  # a screen of few rows, or an exercise that says very much
            lines = [*note, *_failure(report, detailed[0], width, form)]
    print_lines(lines[:rows], console)


def _named_from_here(report: Report) -> Report:
    """Returns the report, escaped, with the file's path from the current folder."""
    return escape_report(replace(report, file=path_from_here(Path(report.file))))


def _results(report: Report, exercise: Exercise) -> list[Result]:
    return [result for result in report.results if result.exercise == exercise.name]


def _detailed(report: Report, exercises: tuple[Exercise, ...]) -> list[Exercise]:
    """Returns the exercises to show in detail: those that fail, then those that pass and print something."""
    if report.unusable:
        return []
    states = {exercise: state(_results(report, exercise)) for exercise in exercises}
    alone = len(exercises) == 1
    failing = [each for each in exercises if states[each] == "fail" or (alone and states[each] == "skipped")]
    printing = [each for each in exercises if any(result.printed.strip() for result in _results(report, each))]
    return failing + [each for each in printing if each not in failing]


def _beginning(report: Report, exercises: tuple[Exercise, ...], width: int) -> list[Text]:
    """Returns a line for each exercise, or the error of a file that does not load; then points, seed and file."""
    end = _points_line(report)
    if report.unusable:
        sentence, *source = report.unusable.splitlines()
        text = "\n".join([f"{sentence} Nothing can be checked before that is fixed.", *source])
        return [end, *verdict("error", text, width, "red")]
    name_width = max(len(exercise.name) for exercise in exercises)
    lines = [summary_lines(exercise, _results(report, exercise), name_width, width) for exercise in exercises]
    return [line for exercise_lines in lines for line in exercise_lines] + [end]


def _folded(report: Report, exercises: tuple[Exercise, ...], width: int) -> list[Text]:
    """Returns a line for all exercises in the same state, with their number; then points, seed and file."""
    states = [state(_results(report, exercise)) for exercise in exercises]
    lines = []
    for kind in dict.fromkeys(states):
        count, (word, style) = states.count(kind), WORDS[kind]
        lines += verdict(word, f"{count} {'exercise' if count == 1 else 'exercises'}", width, style)
    return [*lines, _points_line(report)]


def _points_line(report: Report) -> Text:
    points = f"{report.points} of {report.max_points} points"
    return Text.assemble((points, "bold"), f"   seed {report.seed}   {report.file}")


def _failure(report: Report, exercise: Exercise, width: int, form: int = 0) -> list[Text]:
    diagnoses = [diagnosis for diagnosis in report.diagnoses if diagnosis.exercise == exercise.name]
    heading = Text(exercise.name, style="bold")
    return [heading, *failure_lines(exercise, _results(report, exercise), diagnoses, width, form)]


def show_list(
    exercises: tuple[Exercise, ...], points: dict[str, int], console: Console, report: Report | None = None
) -> None:
    """Prints one line for each exercise: its state (by the report, if any), its points, minutes and difficulty."""
    for exercise in exercises:
        earned = points.get(exercise.name, 0)
        kind = "pass" if earned == exercise.points else "fail" if earned else "todo"
        if report and (results := _results(report, exercise)):
            kind = state(results)
        text = f"{exercise.name}   {earned} of {exercise.points} points, {exercise.minutes} minutes, "
        print_lines(verdict(WORDS[kind][0], text + exercise.difficulty, console.width, WORDS[kind][1]), console)


def show_hint(exercise: Exercise, tier: int, console: Console) -> None:
    """Prints hint number `tier`, counted from 1."""
    console.print(f"{exercise.name}, hint {tier} of {len(exercise.hints)}", style="bold")
    print_paragraph(exercise.hints[tier - 1], console)
    if tier < len(exercise.hints):
        console.print("Ask again for the next hint.", style="dim")


def print_paragraph(text: str, console: Console, style: str = "") -> None:
    """Prints text, wrapped."""
    print_lines(paragraph(text, console.width, style=style), console)


def print_lines(lines: list[Text], console: Console) -> None:
    """Prints lines as they are, without wrapping them again."""
    for line in lines:
        console.print(line, soft_wrap=True)
