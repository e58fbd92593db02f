"""Lab 02's exercises as an nbgrader notebook that checks a submission exactly as `rankzero grade` does.

Each exercise has a solution cell, cut out of the submission's exercises.py. Each check has a test cell with the check's
points, which runs the check's probe on the notebook's functions and on the reference's functions, and compares. As in
every notebook grader, the reference and the judges are inside the process that they judge, so a submission's cell could
read or replace them. A submission that leaves them alone gets the same points from both graders.
"""

import ast
from collections.abc import Iterator

import nbformat
from nbformat.notebooknode import NotebookNode

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import Check, exercises_of

# The first of the locked cells. Checks that share a probe share its answers, as in `check_file`.
JUDGING_CELL = """
import __main__
import functools
import torch
from rankzero.curriculum import find_lab
from rankzero.exercises.probes.loader import load

torch.set_num_threads(1)
lab = find_lab("{number}")
probes, reference = load(lab.probes), load(lab.reference)
checks = {{check.name: check for exercise in load(lab.checks).EXERCISES for check in exercise.checks}}
passed = set()


@functools.cache
def answers(probe, module):
    torch.set_grad_enabled(True)
    return getattr(probes, probe)(module, {seed})


def passes(name):
    check = checks[name]
    missing = set(check.requires) - passed
    assert not missing, f"blocked by {{missing}}"
    failure = check.judge(answers(check.probe, __main__), answers(check.probe, reference))
    assert not failure, failure
    passed.add(name)
"""


def notebook(lab: Lab, solution: str, seed: int) -> NotebookNode:
    """Returns the notebook with the answers of `solution`, the text of an exercises.py."""
    head, pieces = split_by_exercise(lab, solution)
    cells = [cell("head", head), cell("judging", JUDGING_CELL.format(number=lab.number, seed=seed))]
    for exercise in exercises_of(lab):
        cells.append(cell(exercise.name, pieces[exercise.name], solution=True))
        cells += [test_cell(check) for check in exercise.checks]
    filled = nbformat.v4.new_notebook(cells=cells)
    filled.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for number, numbered_cell in enumerate(filled.cells):
        numbered_cell["id"] = f"cell-{number}"
    return filled


def split_by_exercise(lab: Lab, source: str) -> tuple[str, dict[str, str]]:
    """Returns the text before the first exercise, and each exercise's part of the file by the exercise's name."""
    starts = [(line, name) for name, line in first_lines(lab, source)]
    lines = source.splitlines(keepends=True)
    ends = [line for line, _ in starts[1:]] + [len(lines)]
    pieces = {name: "".join(lines[line:end]).strip() for (line, name), end in zip(starts, ends, strict=True)}
    return "".join(lines[: starts[0][0]]).strip(), pieces


def first_lines(lab: Lab, source: str) -> Iterator[tuple[str, int]]:
    """Yields each exercise's name and the line, counted from 0, on which its first function begins."""
    lines = [(node.name, node.lineno - 1) for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    for exercise in exercises_of(lab):
        yield exercise.name, min(line for name, line in lines if name in exercise.functions)


def test_cell(check: Check) -> NotebookNode:
    """Returns the autograded test of one check. Its body is hidden from the version that students get."""
    source = f'### BEGIN HIDDEN TESTS\npasses("{check.name}")\n### END HIDDEN TESTS'
    return cell(check.name.replace("/", "--"), source, points=check.points)


def cell(name: str, source: str, *, solution: bool = False, points: int = 0) -> NotebookNode:
    """Returns a code cell with nbgrader's metadata: locked unless it is a solution, a test if it gives points."""
    code_cell = nbformat.v4.new_code_cell(source)
    code_cell.metadata["nbgrader"] = {
        "schema_version": 3,
        "grade_id": name,
        "solution": solution,
        "locked": not solution,
        "grade": points > 0,
        "task": False,
        **({"points": points} if points else {}),
    }
    return code_cell
