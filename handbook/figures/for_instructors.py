"""Figures of the page for instructors: the sandbox's wall, and the scores of a made-up class."""

import random
from itertools import islice

from matplotlib.figure import Figure

from rankzero.curriculum import find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.known_wrong import KnownWrong, known_wrong
from rankzero.exercises.checks.report import Diagnosis, Report, Result
from rankzero.figures import shapes, style
from rankzero.figures.figure import figure
from rankzero.grading.grade import Grade, Student, Submission
from rankzero.grading.report.class_statistics import HISTOGRAM_BINS, LabStatistics, lab_statistics

OUTSIDE = (
    "judges",
    "reference and\nknown-wrong solutions",
    "the secret that makes seeds",
    "other submissions, grades",
    "your files, the network",
)
CROSSES = (
    ("exercises.py, read-only", True),
    ("probes, a random seed", True),
    ("values, with a token", False),
)
STAYS = ("objects, pickles, code", "connections, signals", "processes that stay")


@figure(
    "sandbox-wall",
    caption="The submission's file, the probes and a random seed enter the sandbox; plain values leave it. Judges, "
    "answers and other submissions are outside, so a submission finds nothing there to read or to change.",
    description="Two boxes with a wall between them. The left box, outside the sandbox, holds judges, reference and "
    "known-wrong solutions, the secret that makes seeds, other submissions and grades, your files and the network. The "
    "right box, the sandbox, holds a supervisor and one process per exercise with the submission and the probe. Two "
    "arrows lead in: exercises.py, read-only, and probes with one random seed. One arrow leads out: plain values with "
    "a token. Three arrows from the sandbox end at the wall: objects, pickles and code; connections and signals; "
    "processes that stay.",
)
def sandbox_wall() -> Figure:
    drawing, axes = style.new_figure(3.5)
    style.blank(axes, 100, 48)
    for left, title in ((0, "outside: trusted"), (70, "sandbox: untrusted")):
        shapes.box(axes, left, 4, 30, 43, rounding=1)
        axes.text(left + 15, 1.6, title, ha="center", va="center", fontweight="bold")
    for row, text in enumerate(OUTSIDE):
        shapes.box(axes, 1.5, 6 + 8 * row, 27, 6.6, text, color=style.PAPER, size=8.6)
    shapes.box(axes, 71.5, 6, 27, 10.6, "supervisor: compares torch,\nprobes and Python\nbefore and after", size=8.6)
    shapes.box(axes, 71.5, 19, 27, 24, color=style.PAPER)
    axes.text(85, 21.6, "one process per exercise", ha="center", va="center", fontsize=8.6)
    shapes.box(axes, 74, 24, 22, 7, "exercises.py", color=style.ORANGE, weight="bold", size=9)
    shapes.box(axes, 74, 33.5, 22, 7, "probe", color=style.BLUE, weight="bold", size=9)
    axes.plot([50, 50], [4, 47], color=style.INK, linewidth=5, solid_capstyle="butt")
    for row, (text, inward) in enumerate(CROSSES):
        y = 10 + 6.6 * row
        ends = ((31, y), (69, y)) if inward else ((69, y), (31, y))
        color = style.GREEN if inward else style.BLUE
        axes.plot([50, 50], [y - 1.2, y + 1.2], color=style.PAPER, linewidth=7, solid_capstyle="butt")
        shapes.arrow(axes, *ends, color=color, line=1.6)
        place = (40, "center") if inward else (60, "center")
        axes.text(place[0], y - 0.9, text, ha=place[1], va="bottom", color=color, fontsize=8.5)
    for row, text in enumerate(STAYS):
        y = 30.5 + 6.6 * row
        shapes.arrow(axes, (69, y), (51.2, y), color=style.MUTED, dash="--")
        axes.text(60.5, y - 0.9, text, ha="center", va="bottom", color=style.MUTED, fontsize=8.5)
        axes.plot(50, y, "X", color=style.ORANGE, markersize=9)
    return drawing


def made_up_class(students: int = 60) -> LabStatistics:
    """Returns the statistics of a class of Lab 02 whose students each make up to four known mistakes, by seed 0."""
    lab, chance = find_lab("02"), random.Random(0)
    mistakes = list(islice(known_wrong(lab).values(), 0, None, 9))  # so that several students make the same one
    weights = [1 / (place + 1) for place in range(len(mistakes))]
    grades = []
    for number in range(students):
        made = chance.choices(mistakes, weights, k=chance.choice((0, 0, 1, 1, 2, 3, 4)))
        report = report_of({wrong.exercise: wrong for wrong in made})
        submission = Submission(Student(f"student-{number}"), "02", None)
        grades.append(Grade(submission, (0,), "", "sandbox", "", 1.0, report.max_points, report))
    return lab_statistics(lab, grades)


def report_of(mistakes: dict[str, KnownWrong]) -> Report:
    """Returns the report of a student who makes one mistake in each of these exercises."""
    results = []
    for exercise in exercises_of(find_lab("02")):
        lost = set(mistakes[exercise.name].fails) if exercise.name in mistakes else set()
        for check in exercise.checks:
            skipped = not lost.isdisjoint(check.requires) and check.name not in lost
            status = "skipped" if skipped else "fail" if check.name in lost else "pass"
            lost |= {check.name} if skipped else set()
            results.append(Result(check.name, exercise.name, status, check.points * (status == "pass"), check.points))
    known = (Diagnosis(wrong.exercise, wrong.name, wrong.text, wrong.read) for wrong in mistakes.values())
    return Report("02", "exercises.py", 0, tuple(results), tuple(known))


@figure(
    "class-scores",
    caption="Scores of a made-up class of 60 in Lab 02, as the class page shows them, beside the known mistakes. One "
    "mistake is far more frequent than all others: read the mistakes before single scores.",
    description="Left, a histogram of 60 scores in tenths of the points, with the full scores as a bar of their own "
    "and the median as a line. Right, the six most frequent known mistakes as horizontal bars with the number of "
    "students who make each.",
)
def class_scores() -> Figure:
    statistics = made_up_class()
    drawing, (left, right) = style.new_figure(3.1, columns=2, width_ratios=(1.15, 1))
    width = statistics.max_points / HISTOGRAM_BINS
    colors = [style.BLUE] * HISTOGRAM_BINS + [style.GREEN]
    left.bar(
        [(tenth + 0.5) * width for tenth in range(HISTOGRAM_BINS + 1)], statistics.bins, 0.92 * width, color=colors
    )
    left.axvline(statistics.median, color=style.ORANGE, linewidth=1.6)
    top = max(statistics.bins)
    left.text(statistics.median - 1, top * 1.09, f"median {statistics.median:g}", color=style.ORANGE, ha="right")
    left.text((HISTOGRAM_BINS + 0.5) * width, statistics.bins[-1] + 0.2, "all points", ha="center", color=style.GREEN)
    left.set(xlabel=f"score, of {statistics.max_points} points", ylabel="submissions", ylim=(0, top * 1.2))
    left.set_xlim(0, (HISTOGRAM_BINS + 1.4) * width)
    mistakes = statistics.mistakes[:6]
    right.barh(range(len(mistakes)), [count for _, count in mistakes], 0.5, color=style.PURPLE)
    for place, (mistake, count) in enumerate(mistakes):
        right.text(0, place - 0.31, f"{mistake.exercise}: {mistake.name.replace('_', ' ')}", va="bottom", fontsize=8.6)
        right.text(count + 0.15, place, str(count), va="center", fontsize=9)
    right.set(xlabel="submissions with this known mistake", ylim=(len(mistakes) - 0.5, -0.9))
    right.set_yticks([])
    right.spines["left"].set_visible(False)
    return drawing
