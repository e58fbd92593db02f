"""Time that grading Lab 02 takes, with `rankzero grade` and with nbgrader.

Both grade the same submissions: the reference, the stubs, and a class of known-wrong solutions. `rankzero grade` gets
them as exercises.py, nbgrader as notebooks (see equivalent_notebook.py). Each command is timed from start to exit, one
after the other, with one submission and one core at a time and with OMP_NUM_THREADS=1, which suits the small models.
Prints the median of several turns, the share of it that is start-up (all but probing and judging; for nbgrader, all but
the cells of exercises and tests), and a class's seconds per submission. Fails if the points of a submission differ.

    pip install -e '.[benchmark]' && python benchmarks/grading.py
"""

import argparse
import csv
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nbformat
from equivalent_notebook import notebook

from rankzero.curriculum import find_lab
from rankzero.exercises.checks.known_wrong import KnownWrong, known_wrong, wrong_source
from rankzero.learn.machine.fingerprint import fingerprint

LAB = find_lab("02")
SEED = 20261121


@dataclass
class Side:
    """One of the two graders that are compared: its command lines, and its working folder."""

    name: str
    folder: Path
    turn_seconds: list[float] = field(default_factory=list)  # of each turn with one submission
    class_seconds: float = 0.0  # of the whole class
    reference_seconds: float = 0.0  # of probing and judging the reference when the whole class was graded

    def hand_in(self, student: str, wrong: KnownWrong | None = None, *, empty: bool = False) -> None:
        """Writes a submission: the stubs if `empty`, otherwise a known-wrong solution or the reference."""
        raise NotImplementedError

    def grade(self, students: str) -> None:
        """Grades one student, or every student if `students` is "*"."""
        raise NotImplementedError

    def points(self) -> dict[str, float]:
        """Returns the points of every student graded so far."""
        raise NotImplementedError

    def seconds_of_checks(self, student: str) -> float:
        """Returns the seconds that probing and judging took when the student was last graded."""
        raise NotImplementedError

    def seconds(self, students: str) -> float:
        """Grades the students and returns the seconds that this took."""
        start = time.perf_counter()
        self.grade(students)
        return time.perf_counter() - start


class RankZero(Side):
    """`rankzero grade`, with its sandbox."""

    def hand_in(self, student: str, wrong: KnownWrong | None = None, *, empty: bool = False) -> None:
        write(self.folder / "class" / student / "exercises.py", submitted(wrong, empty))

    def grade(self, students: str) -> None:
        submissions = self.folder / "class"
        if students != "*":  # a class with one student
            submissions = self.folder / f"only-{students}"
            shutil.copytree(self.folder / "class" / students, submissions / students, dirs_exist_ok=True)
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        options = ["--lab", LAB.number, "--seed", str(SEED), "--jobs", "1", "--out", str(out)]
        call([sys.executable, "-m", "rankzero.cli", "grade", str(submissions), *options], self.folder)

    def points(self) -> dict[str, float]:
        return read_points(self.folder / "out" / "grades.csv")

    def seconds_of_checks(self, student: str) -> float:
        grade = json.loads((self.folder / "out" / "grades" / LAB.number / f"{student}.json").read_text())
        return float(grade["seconds"])


class NbGrader(Side):
    """`nbgrader autograde`, which runs each notebook in its own kernel, without a sandbox."""

    command = str(Path(sys.executable).with_name("nbgrader"))

    def hand_in(self, student: str, wrong: KnownWrong | None = None, *, empty: bool = False) -> None:
        submission = notebook(LAB, submitted(wrong, empty), SEED)
        write(self.folder / "submitted" / student / "lab02" / "lab02.ipynb", nbformat.writes(submission))

    def make_assignment(self) -> None:
        """Makes the students' notebook from the notebook with answers. An instructor does this once per assignment."""
        with_answers = notebook(LAB, LAB.reference.read_text(encoding="utf-8"), SEED)
        write(self.folder / "source" / "lab02" / "lab02.ipynb", nbformat.writes(with_answers))
        call([self.command, "generate_assignment", "lab02"], self.folder)

    def grade(self, students: str) -> None:
        call([self.command, "autograde", "lab02", "--force", f"--student={students}"], self.folder)

    def points(self) -> dict[str, float]:
        call([self.command, "export", "--to=grades.csv"], self.folder)
        return read_points(self.folder / "grades.csv")

    def seconds_of_checks(self, student: str) -> float:
        graded = nbformat.read(self.folder / "autograded" / student / "lab02" / "lab02.ipynb", as_version=4)
        names = [cell.metadata.nbgrader.grade_id for cell in graded.cells]
        first, last = (graded.cells[place].metadata.execution for place in (names.index("judging") + 1, -1))
        start, end = first["iopub.status.busy"], last["iopub.status.idle"]
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def submitted(wrong: KnownWrong | None, empty: bool) -> str:
    """Returns a submission's source: the stubs if `empty`, otherwise a known-wrong solution or the reference."""
    if wrong:
        return wrong_source(LAB, wrong)
    return (LAB.stubs if empty else LAB.reference).read_text(encoding="utf-8")


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def call(command: list[str], folder: Path) -> None:
    """Runs a command with the configuration in `folder` only. RuntimeError with the command's output if it fails."""
    configuration = {"JUPYTER_CONFIG_DIR": str(folder / "jupyter"), "IPYTHONDIR": str(folder / "ipython")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **configuration, "PATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stdout[-3000:]}")


def read_points(file: Path) -> dict[str, float]:
    """Returns the points in a grades.csv by student."""
    with file.open(encoding="utf-8", newline="") as stream:
        return {row["student_id"]: float(row["raw_score"]) for row in csv.DictReader(stream)}


def disagreements(rankzero: dict[str, float], nbgrader: dict[str, float]) -> list[str]:
    """Returns a line for each student to whom the two graders give different points."""
    return [
        f"{student}: rankzero {rankzero.get(student)}, nbgrader {nbgrader.get(student)}"
        for student in sorted(rankzero.keys() | nbgrader.keys())
        if rankzero.get(student) != nbgrader.get(student)
    ]


def compare(sides: tuple[RankZero, NbGrader], turns: int, size: int) -> None:
    """Times single submissions, turn by turn, then the class. Prints the seconds of each turn."""
    for side in sides:
        side.hand_in("full")
        side.hand_in("empty", empty=True)
    sides[1].make_assignment()
    for turn in range(turns):
        for side in sides:
            side.turn_seconds.append(side.seconds("full"))
        print(f"turn {turn + 1}: " + ", ".join(f"{side.name} {side.turn_seconds[-1]:.2f} s" for side in sides))
    wrongs = itertools.cycle(known_wrong(LAB).values())
    for number, wrong in zip(range(1, size - 1), wrongs, strict=False):  # "full" and "empty" are in the class too
        for side in sides:
            side.hand_in(f"wrong-{number:03}", wrong)
    for side in sides:
        side.class_seconds = side.seconds("*")
        side.reference_seconds = side.seconds_of_checks("full")


def print_medians(sides: tuple[RankZero, NbGrader], size: int) -> None:
    """Prints the medians and their ratios."""
    for side in sides:
        total = statistics.median(side.turn_seconds)
        start_up = 100 * (1 - side.reference_seconds / total)
        print(
            f"{side.name}: one submission {total:.2f} s, of which {start_up:.0f} % is start-up; "
            f"a class of {size} {side.class_seconds:.1f} s, {side.class_seconds / size:.2f} s per submission"
        )
    rankzero, nbgrader = sides
    single = statistics.median(nbgrader.turn_seconds) / statistics.median(rankzero.turn_seconds)
    whole = nbgrader.class_seconds / rankzero.class_seconds
    print(f"nbgrader takes {single:.1f}x as long for one submission, {whole:.1f}x for the class")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--turns", type=int, default=5, help="times that one submission is graded (default: 5)")
    parser.add_argument("--students", type=int, default=20, help="submissions in the class, 3 or more (default: 20)")
    options = parser.parse_args()
    try:
        nbgrader_version = version("nbgrader")
    except PackageNotFoundError:
        sys.exit("nbgrader is not installed here: pip install -e '.[benchmark]', or make benchmark-grading.")
    facts = fingerprint()
    print(f"{facts['date']}  {facts['cpu']}, {facts['cpu_cores']} cores, load before {os.getloadavg()[0]:.1f}")
    print(f"Python {facts['python']}, torch {facts['torch']}, nbgrader {nbgrader_version}, commit {facts['commit']}")
    with tempfile.TemporaryDirectory() as folder:
        sides = RankZero("rankzero", Path(folder, "rankzero")), NbGrader("nbgrader", Path(folder, "nbgrader"))
        compare(sides, options.turns, options.students)
        print_medians(sides, options.students)
        points = sides[0].points()
        differences = disagreements(points, sides[1].points())
    if differences:
        sys.exit("The points disagree:\n  " + "\n  ".join(differences))
    print("Both give the same points: " + ", ".join(f"{name} {value:g}" for name, value in sorted(points.items())))


if __name__ == "__main__":
    main()
