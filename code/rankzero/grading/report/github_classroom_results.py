"""GitHub Classroom's results: the JSON that autograding-grading-reporter reads from a workflow, base64-encoded.

The reporter's source defines its input (https://github.com/classroom-resources/autograding-grading-reporter, read
2026-11-21): it adds up the tests' scores, and prints names, messages and test code into the log of a workflow. A line
of that log that begins with `::` is a command to GitHub, and Classroom reads a submission's points out of the command
`::notice title=Autograding report::`. So text of a submission must not begin a line there, nor contain the older `##[`.
"""

from collections.abc import Iterator
from typing import Any

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.report import Report
from rankzero.grading.grade import Grade
from rankzero.grading.report.feedback_text import adjusted, first_failures, penalty, repeat, result_text, summary

VERSION = 1


def results(grade: Grade, lab: Lab) -> dict[str, Any]:
    """Returns the reporter's input. If there is no score, `max_score` is 0 and the status is "error"."""
    if not (grade.gradable or grade.decided):
        return _result("error", 0, [_test("grading", "error", 0, "\n".join(summary(grade)))])
    if grade.gradable and grade.report:
        tests = list(_tests(grade.report, lab, repeat(grade)))
    else:
        tests = [_test("exercises.py", "fail", 0, "\n".join(summary(grade)))]
    if grade.gradable and grade.late_days:  # the reporter has no penalties, so a test with negative points takes them
        status = "fail" if grade.taken_off else "pass"
        tests.append(_test("handed in on time", status, -grade.taken_off, "\n".join(penalty(grade))))
    if grade.adjustments:
        change = round(grade.score - sum(test["score"] for test in tests), 6)
        tests.append(_test("adjusted by a person", "pass", change, "", "\n".join(adjusted(grade))))
    points = grade.score if grade.decided else grade.points
    return _result("pass" if points >= grade.max_points else "fail", grade.max_points, tests)


def _tests(report: Report, lab: Lab, command: str) -> Iterator[dict[str, Any]]:
    says = {check.name: f"{exercise.name} {check.says}" for exercise in exercises_of(lab) for check in exercise.checks}
    first = first_failures(report)
    for result in report.results:
        status = "pass" if result.status == "pass" else "fail"
        text = result_text(report, result, with_exercise=result.check in first)
        code = "" if status == "pass" else f"{text}\n\n{command}"
        yield _test(says.get(result.check, result.check), status, result.points, text, code)


def _result(status: str, max_score: int, tests: list[dict[str, Any]]) -> dict[str, Any]:
    return {"version": VERSION, "status": status, "max_score": max_score, "tests": tests}


def _test(name: str, status: str, score: float, message: str, code: str = "") -> dict[str, Any]:
    """Returns a test. The reporter prints `test_code` of every test, and `message` only with the status "error"."""
    return {
        "name": _no_command(name),
        "status": status,
        "score": score,
        "message": None if status == "pass" else _no_command(message),
        "test_code": _no_command(code),
        "filename": "",
        "line_no": 0,
        "duration": 0,
    }


def _no_command(text: str) -> str:
    """Returns `text` without commands to the workflow."""
    return "\n".join(f"| {line}" if "::" in line else line for line in text.replace("##[", "##\\[").splitlines())
