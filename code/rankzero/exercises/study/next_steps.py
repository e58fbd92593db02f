"""Next steps after a check: the function to write, the section to read, the solution to compare, the next lab."""

import ast
import re
from pathlib import Path

from rankzero.curriculum import Lab, path_from_here
from rankzero.exercises.checks.check import Exercise, exercises_of
from rankzero.exercises.checks.known_wrong import known_wrong
from rankzero.exercises.checks.report import Report
from rankzero.exercises.study import progress
from rankzero.exercises.study.exercise_display import needs, state


def next_steps(lab: Lab, report: Report, exercises: tuple[Exercise, ...], keys: bool = False) -> list[str]:
    """Returns the sentences to print below a report; few below a failure, which is to be read first.

    With `keys`, without the commands for which a watch has keys: hint and compare.
    """
    if report.unusable:
        return []
    results = {exercise: [r for r in report.results if r.exercise == exercise.name] for exercise in exercises}
    states = {exercise: state(results[exercise]) for exercise in exercises}
    if failing := [exercise for exercise in exercises if states[exercise] == "fail"]:
        return _after_a_failure(lab, report, failing[0], keys)
    for exercise in exercises:
        if states[exercise] == "todo":
            unwritten = next((name for name in exercise.functions if _line(Path(report.file), name, stub=True)), "")
            where = f", line {_line(Path(report.file), unwritten)} of {Path(report.file).name}" if unwritten else ""
            hint = [] if keys else [f"A hint: rankzero hint {lab.number} {exercise.name}"]
            return [f"Next: write {unwritten or exercise.name}{where}", *hint, f"Read {section(lab, exercise)}"]
    if blocked := [exercise for exercise in exercises if states[exercise] == "skipped"]:
        return [f"Next: rankzero check {lab.number} {needs(blocked[0], results[blocked[0]])[0]}"]
    steps = [offer(lab, exercises[0])] if len(exercises) == 1 and not keys else []
    points = progress.of_lab(lab).points | report.by_exercise()
    following = next((each for each in exercises_of(lab) if points.get(each.name, 0) < each.points), None)
    if not following:
        own = [f"rankzero run {lab.number} --mine trains with what you wrote."] if lab.mine.is_file() else []
        return [*steps, *own, f"Lab {lab.number} is done. Next: Break It, in {path_from_here(lab.page)}"]
    return [*steps, f"Next: rankzero watch {lab.number} {following.name}", f"Read {section(lab, following)}"]


def _after_a_failure(lab: Lab, report: Report, exercise: Exercise, keys: bool) -> list[str]:
    """Returns the points that count if they were more before, and the way to a hint if no known mistake is named."""
    steps, best = [], progress.of_lab(lab).points.get(exercise.name, 0)
    if best > report.by_exercise()[exercise.name]:
        steps = [f"Your best result counts: {best} of {exercise.points} points in {exercise.name}."]
    failures = [r for r in report.results if r.exercise == exercise.name and r.status not in ("pass", "skipped")]
    # The screen shows the mistakes that explain the first failure.
    named = any(each.exercise == exercise.name and each.explains(failures[0].check) for each in report.diagnoses)
    wrong = any(result.status == "fail" for result in failures)
    complete = all(_line(Path(report.file), name) for name in exercise.functions)
    if wrong and complete and not named and not keys:
        steps += [f"No known mistake explains this. A hint: rankzero hint {lab.number} {exercise.name}"]
    return steps


def offer(lab: Lab, exercise: Exercise) -> str:
    """Returns what a learner may look at after an exercise has passed."""
    text = f"rankzero compare {lab.number} {exercise.name} shows the solution beside yours."
    return " ".join([text, *filter(None, [other_hints(lab, exercise)])])


def other_hints(lab: Lab, exercise: Exercise) -> str:
    """Returns how to see the hints that were not needed; empty if all have been shown."""
    left = len(exercise.hints) - progress.of_lab(lab).hints.get(exercise.name, 0)
    hints = "the hint" if left == 1 else f"the {left} hints"
    return f"rankzero hint {lab.number} {exercise.name} shows {hints} that you did not need." if left > 0 else ""


def section(lab: Lab, exercise: Exercise) -> str:
    """Returns the section to read for an exercise: `Read:` in its docstring, or what most of its mistakes refer to."""
    tree = ast.parse(lab.stubs.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in exercise.functions:
            text = " ".join((ast.get_docstring(node) or "").split())
            if found := re.search(r'Read: (\S+\.md(?:, "[^"]+")?)', text):
                return found[1]
    pages = [wrong.read for wrong in known_wrong(lab).values() if wrong.exercise == exercise.name]
    return max(pages, key=pages.count)


def _line(file: Path, function: str, stub: bool = False) -> int:
    """Returns the line of a function's `def`; with `stub`, only if the function raises NotImplementedError; or 0."""
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == function:
            return node.lineno if not stub or "NotImplementedError" in ast.unparse(node) else 0
    return 0
