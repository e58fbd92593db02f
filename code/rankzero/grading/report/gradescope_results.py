"""Gradescope's results.json: points, and one named test per check.

Its format: https://gradescope-autograders.readthedocs.io/en/latest/specs/ (read 2026-11-21).
"""

from collections.abc import Iterator
from typing import Any

from rankzero.curriculum import Lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.grading.grade import Grade
from rankzero.grading.report.feedback_text import adjusted, first_failures, penalty, repeat, result_text, summary

SCHEMA = "rankzero-gradescope/1"


def results(grade: Grade, lab: Lab) -> dict[str, Any]:
    """Returns the contents of results.json. If grading itself failed, the score is a person's, or there is none."""
    submission = grade.submission
    sentences = [*summary(grade), *penalty(grade), *adjusted(grade), *([repeat(grade)] if grade.report else [])]
    output: dict[str, Any] = {
        "execution_time": round(grade.seconds, 3),
        "output": "\n".join(sentences),
        "output_format": "text",
        "visibility": lab.grading.visibility,
        "stdout_visibility": "hidden",
        "extra_data": {
            "schema": SCHEMA,
            "lab": lab.number,
            "student": submission.student.student_id,
            "submission_sha256": submission.sha256,
            "submitted_at": submission.submitted_at,
            "graded_at": grade.graded_at,
            "version": grade.version,
            "seeds": list(grade.seeds),
            "gradable": grade.gradable,
            "isolation": grade.isolation,
        },
    }
    if grade.gradable or grade.decided:  # the student sees a missing file at once, so it is no open question here
        output["score"] = grade.score
    if grade.gradable:
        output["tests"] = list(_tests(grade, lab))
    return output


def _tests(grade: Grade, lab: Lab) -> Iterator[dict[str, Any]]:
    if not grade.report:
        return
    first = first_failures(grade.report)
    for number, exercise in enumerate(exercises_of(lab), start=1):
        says = {check.name: check.says for check in exercise.checks}
        results = [result for result in grade.report.results if result.exercise == exercise.name]
        for index, result in enumerate(results, start=1):
            yield {
                "name": f"{exercise.name} {says.get(result.check, result.check)}",
                "number": f"{number}.{index}",
                "score": result.points,
                "max_score": result.max_points,
                "status": "passed" if result.status == "pass" else "failed",
                "output": result_text(grade.report, result, with_exercise=result.check in first),
                "visibility": lab.grading.visibility,
                "tags": [exercise.name, result.status],
            }
