"""Lab facts on a lab's page: minutes and difficulty from lab.toml; points, minutes and hints from checks.py.

Three kinds of block (`generated_blocks.py`) are filled on the page of a lab::

    <!-- lab: box -->             the row with minutes and difficulty; its other cells stay as they are
    <!-- facts: train_step -->    the line with points, minutes, difficulty and what the exercise proves
    <!-- hints: train_step -->    the hints, folded
"""

import re

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.publish.generated_blocks import fill_blocks

_BOX_ROW = re.compile(r"(?P<head>\| minutes \| difficulty \|.*\n\|[-|]+\|\n)\|[^|\n]*\|[^|\n]*\|(?P<rest>.*\n)")


def fill(lab: Lab, text: str) -> str:
    """Returns `text`, the text of the lab's page, with its facts and hints filled. UserError for a wrong block."""
    text = fill_blocks(lab.page, text, "lab", lambda source, row: _box(lab, source, row))
    text = fill_blocks(lab.page, text, "facts", lambda name, _: facts(_exercise(lab, name)))
    return fill_blocks(lab.page, text, "hints", lambda name, _: hints(_exercise(lab, name)))


def facts(exercise: Exercise) -> str:
    """Returns the line below an exercise's heading."""
    effort = f"{exercise.points} points · {exercise.minutes} minutes · {exercise.difficulty}"
    return f"{effort} · proves that {exercise.proves}.\n"


def hints(exercise: Exercise) -> str:
    """Returns an exercise's hints, folded, from a nudge to nearly the answer."""
    numbered = "".join(f"{number}. {hint}\n" for number, hint in enumerate(exercise.hints, start=1))
    return f"<details><summary>Hints</summary>\n\n{numbered}\n</details>\n\n"


def _exercise(lab: Lab, name: str) -> Exercise:
    exercises = {exercise.name: exercise for exercise in exercises_of(lab)}
    if name not in exercises:
        raise LookupError(f"{lab.checks.name} has no such exercise; it has {', '.join(exercises) or 'none'}")
    return exercises[name]


def _box(lab: Lab, source: str, content: str) -> str:
    row = _BOX_ROW.fullmatch(content)
    if source != "box" or row is None:
        raise LookupError("expected <!-- lab: box --> and a table of one row: minutes, difficulty, then other columns")
    return f"{row['head']}| {lab.minutes} | {lab.difficulty} |{row['rest']}"
