"""Exercise display: an exercise's verdicts as one line, or as lines of which the last explain the first failure."""

import itertools
from collections.abc import Sequence

from rich.text import Text

from rankzero.exercises.checks.check import Exercise
from rankzero.exercises.checks.report import Diagnosis, Result
from rankzero.exercises.study.text_lines import INDENT, cut, paragraph, verdict

WORDS = {
    "pass": ("ok", "green"),
    "fail": ("FAIL", "red"),
    "error": ("error", "red"),
    "timeout": ("too slow", "red"),
    "oom": ("memory", "red"),
    "killed": ("died", "red"),
    "skipped": ("blocked", "yellow"),
    "todo": ("todo", "dim"),
}
KNOWN = "A known mistake:"
TOGETHER = "Two known mistakes at once:", "And the other:"
FORMS = 8  # of `failure_lines`, from all that is known to the least
PRINTED = {5: 3, 6: 1, 7: 0}  # by form: the printed lines that are shown, if not all


def state(results: Sequence[Result]) -> str:
    """Returns pass, fail, todo (a function is not written) or skipped (blocked by another exercise)."""
    if all(result.status == "pass" for result in results):
        return "pass"
    if any(result.status not in ("pass", "skipped") and not result.todo for result in results):
        return "fail"
    return "todo" if any(result.todo for result in results) else "skipped"


def needs(exercise: Exercise, results: Sequence[Result]) -> list[str]:
    """Returns the names of the other exercises on which the exercise's blocked checks depend."""
    blocked = {result.check for result in results if result.status == "skipped"}
    required = [name.split("/")[0] for check in exercise.checks if check.name in blocked for name in check.requires]
    required += [result.needs for result in results if result.needs]
    return list(dict.fromkeys(name for name in required if name != exercise.name))


def summary_lines(exercise: Exercise, results: Sequence[Result], name_width: int, width: int) -> list[Text]:
    """Returns the exercise's state, name and points, and what it needs or lacks: one line, if the function is there."""
    word, style = WORDS[state(results)]
    note = ""
    if word == "blocked":
        note = f"needs {', '.join(needs(exercise, results))}"
    elif word == "todo":
        lacks = next(result.text.split(". A hint:")[0] for result in results if result.todo)
        unwritten = lacks.removesuffix(" is not written yet")
        note = lacks if unwritten == lacks else f"next: {unwritten}" if unwritten != exercise.name else ""
    points = f"{sum(result.points for result in results):>2} of {exercise.points:>2}"
    return verdict(word, f"{exercise.name:<{name_width}}  {points}   {note}".rstrip(), width, style)


def failure_lines(
    exercise: Exercise, results: Sequence[Result], diagnoses: Sequence[Diagnosis], width: int, form: int = 0
) -> list[Text]:
    """Returns the exercise's checks; of those that fail, the first is the last, and whole, with its diagnosis below it.

    Each `form` up to `FORMS` - 1 leaves out more: passed checks, blocked checks, what other failures say, these, and
    what the code printed.
    """
    says = {check.name: check.says for check in exercise.checks}
    failures = [result for result in results if result.status not in ("pass", "skipped")]
    first = failures[:1] or [result for result in results if result.status == "skipped"][:1]
    groups = {
        "pass": [result for result in results if result.status == "pass"],
        "skipped": [result for result in results if result.status == "skipped" and result not in first],
        "fail": failures[1:],
    }
    lines: list[Text] = []
    for kind, short in (("pass", form >= 1), ("skipped", form >= 2), ("fail", form >= 4)):
        if short and groups[kind]:
            count = len(groups[kind])
            lines += verdict(WORDS[kind][0], f"{count} {'check' if count == 1 else 'checks'}", width, WORDS[kind][1])
        elif not short:
            lines += _checks(groups[kind], says, width, first[0].text if first and form < 3 else None)
    of_first = [each for each in diagnoses if first and each.explains(first[0].check)]
    # Where the first failure has no diagnosis, that of a later one often describes a consequence.
    for diagnosis in (each for each in diagnoses if form < 3 and of_first and each not in of_first):
        lines += _diagnosis(diagnosis, width)
    lines += _printed(results, width, PRINTED.get(form))
    lines += _checks(first, says, width)
    for place, diagnosis in enumerate(of_first):
        lines += _diagnosis(diagnosis, width, TOGETHER[place > 0] if diagnosis.together else KNOWN)
    return lines


def _checks(results: Sequence[Result], says: dict[str, str], width: int, said_below: str | None = "") -> list[Text]:
    """Returns the statement of each check, and its text once for consecutive checks that fail for the same reason.

    The text `said_below` is left out; if it is None, every text.
    """
    lines: list[Text] = []
    for (status, text), consecutive in itertools.groupby(results, lambda result: (result.status, result.text)):
        word, style = WORDS[status]
        for result in consecutive:
            lines += verdict(word, says[result.check], width, style, dim=status == "skipped")
        lines += paragraph(text, width, INDENT) if said_below not in (None, text) else []
    return lines


def _printed(results: Sequence[Result], width: int, most: int | None) -> list[Text]:
    printed = next((result.printed for result in results if result.printed.strip()), "").expandtabs().splitlines()
    if not printed:
        return []
    shown = printed if most is None else printed[:most]
    left_out = f" ({len(printed) - len(shown)} of {len(printed)} lines left out)" if len(shown) < len(printed) else ""
    heading = Text(f"{' ' * INDENT}your code printed{left_out}{':' if shown else '.'}", style="dim")
    return [heading, *(cut(" " * (INDENT + 2) + line, width, "dim") for line in shown)]


def _diagnosis(diagnosis: Diagnosis, width: int, begins: str = KNOWN) -> list[Text]:
    first, *more = paragraph(f"{begins} {diagnosis.explanation}", width, 2)
    first.stylize("yellow", 2, 2 + len(begins))
    return [first, *more, *paragraph(f"Read {diagnosis.read}", width, 2, "dim")]
