"""Predictions report: what a class predicted in its notebooks, as predictions.csv and predictions.html."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import Lab, find_lab
from rankzero.grading.grade import Grade
from rankzero.grading.intake.notebook_predictions import Prediction, read_notebook, read_predictions
from rankzero.grading.report.gradebook_csv import cell
from rankzero.grading.report.html_pages import render

NEAR = 2.0  # a prediction within this factor of the answer is near


@dataclass(frozen=True)
class PredictionSummary:
    """One prediction of a lab's notebook, over the class."""

    name: str
    unit: str
    answer: float | None  # in the solved notebook; None if it is no literal number there
    values: list[float]  # of the students who wrote a number, in ascending order

    @property
    def median(self) -> float:
        """Returns the middle value."""
        return median(self.values)

    @property
    def near(self) -> int | None:
        """Returns how many are within a factor of two of the answer; None without an answer."""
        if self.answer is None:
            return None
        return sum(_is_near(value, self.answer) for value in self.values)


def _is_near(value: float, answer: float) -> bool:
    low, high = sorted((answer / NEAR, answer * NEAR))
    return low <= value <= high


def write_predictions(grades: Sequence[Grade], out: Path) -> bool:
    """Writes OUT/predictions.csv and OUT/predictions.html if anybody handed in a notebook. Returns whether it did."""
    found = {grade.submission: predictions for grade in grades if (predictions := _predictions_of(grade)) is not None}
    if not found:
        return False
    text = io.StringIO()
    rows = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    rows.writerow(["lab", "student_id", "prediction", "unit", "value"])
    labs = {}
    for number in sorted({submission.lab for submission in found}):
        lab = find_lab(number)
        in_lab = {submission: own for submission, own in found.items() if submission.lab == number}
        labs[lab] = (len(in_lab), summaries(lab, list(in_lab.values())))
        for submission, own in in_lab.items():
            for summary in labs[lab][1]:
                value = own[summary.name].value if summary.name in own else None
                names = map(cell, (number, submission.student.student_id, summary.name, summary.unit))
                rows.writerow([*names, "" if value is None else value])
    write_atomically(out / "predictions.csv", text.getvalue())
    write_atomically(out / "predictions.html", render("predictions.html", grades, predictions=labs))
    return True


def summaries(lab: Lab, notebooks: Sequence[dict[str, Prediction]]) -> list[PredictionSummary]:
    """Returns the predictions that the lab's notebook asks for, in its order, with the class's values.

    A prediction that a student added or renamed is left out.
    """
    asked = read_predictions((lab.solutions / "notebook.py").read_text(encoding="utf-8"))
    return [
        PredictionSummary(
            name,
            answer.unit,
            answer.value,
            sorted(value for own in notebooks if name in own and (value := own[name].value) is not None),
        )
        for name, answer in asked.items()
    ]


def _predictions_of(grade: Grade) -> dict[str, Prediction] | None:
    """Returns the predictions in the notebook beside the graded file; None without a notebook that can be read."""
    file = grade.submission.file and grade.submission.file.with_name("notebook.ipynb")
    if not file or not file.is_file():
        return None
    try:
        return read_notebook(file.read_bytes())
    except ValueError:
        return None
