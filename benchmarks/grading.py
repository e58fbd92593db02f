"""How long does grading Lab 02 take, with `rankzero grade` and with nbgrader?

The same submissions as exercises.py for the one and as a notebook for the other (see equivalent_notebook.py): the
reference, the stubs, and a class of known-wrong solutions. Both commands are timed whole, one after the other, one
submission and core at a time and with OMP_NUM_THREADS=1, which suits the small models. Prints the median of several
turns, which share of it is start-up (all but probing and judging; of nbgrader, all but cells of exercises and tests),
and a class's seconds a submission. Fails if the two give a submission different points.

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
    """One grader: its command lines, and where it works."""

    name: str
    folder: Path
    totals: list[float] = field(default_factory=list)  # seconds of each turn with one submission
    a_class: float = 0.0  # seconds of the whole class
    work: float = 0.0  # seconds that probing and judging the reference took, as one of the class

    def hand_in(self, student: str, wrong: KnownWrong | None = None, *, empty: bool = False) -> None:
        """A submission: the stubs if `empty`, otherwise a known-wrong solution or the reference."""
        raise NotImplementedError

    def grade(self, students: str) -> None:
        """Grades one student, or all for "*"."""
        raise NotImplementedError

    def points(self) -> dict[str, float]:
        """Of every student graded so far."""
        raise NotImplementedError

    def work_on(self, student: str) -> float:
        """Seconds that probing and judging took when the student was graded last."""
        raise NotImplementedError

    def seconds(self, students: str) -> float:
        """How long grading them takes."""
        start = time.perf_counter()
        self.grade(students)
        return time.perf_counter() - start


class RankZero(Side):
    """`rankzero grade`, with its sandbox."""

    def hand_in(self, student: str, wrong: KnownWrong | None = None, *, empty: bool = False) -> None:
        write(self.folder / "class" / student / "exercises.py", submitted(wrong, empty))

    def grade(self, students: str) -> None:
        submissions = self.folder / "class"
        if students != "*":  # a class of one
            submissions = self.folder / f"only-{students}"
            shutil.copytree(self.folder / "class" / students, submissions / students, dirs_exist_ok=True)
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        options = ["--lab", LAB.number, "--seed", str(SEED), "--jobs", "1", "--out", str(out)]
        call([sys.executable, "-m", "rankzero.cli", "grade", str(submissions), *options], self.folder)

    def points(self) -> dict[str, float]:
        return read_points(self.folder / "out" / "grades.csv")

    def work_on(self, student: str) -> float:
        grade = json.loads((self.folder / "out" / "grades" / LAB.number / f"{student}.json").read_text())
        return float(grade["seconds"])


class NbGrader(Side):
    """`nbgrader autograde`, which runs each notebook in a kernel of its own, not in a sandbox."""

    command = str(Path(sys.executable).with_name("nbgrader"))

    def hand_in(self, student: str, wrong: KnownWrong | None = None, *, empty: bool = False) -> None:
        made = notebook(LAB, submitted(wrong, empty), SEED)
        write(self.folder / "submitted" / student / "lab02" / "lab02.ipynb", nbformat.writes(made))

    def make_assignment(self) -> None:
        """What an instructor does once: the notebook with its answers becomes the one that students get."""
        made = notebook(LAB, LAB.reference.read_text(encoding="utf-8"), SEED)
        write(self.folder / "source" / "lab02" / "lab02.ipynb", nbformat.writes(made))
        call([self.command, "generate_assignment", "lab02"], self.folder)

    def grade(self, students: str) -> None:
        call([self.command, "autograde", "lab02", "--force", f"--student={students}"], self.folder)

    def points(self) -> dict[str, float]:
        call([self.command, "export", "--to=grades.csv"], self.folder)
        return read_points(self.folder / "grades.csv")

    def work_on(self, student: str) -> float:
        graded = nbformat.read(self.folder / "autograded" / student / "lab02" / "lab02.ipynb", as_version=4)
        names = [one.metadata.nbgrader.grade_id for one in graded.cells]
        first, last = (graded.cells[place].metadata.execution for place in (names.index("judging") + 1, -1))
        start, end = first["iopub.status.busy"], last["iopub.status.idle"]
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def submitted(wrong: KnownWrong | None, empty: bool) -> str:
    """The source of a submission: the stubs if `empty`, otherwise a known-wrong solution or the reference."""
    if wrong:
        return wrong_source(LAB, wrong)
    return (LAB.stubs if empty else LAB.reference).read_text(encoding="utf-8")


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def call(command: list[str], folder: Path) -> None:
    """Runs a command with no configuration but ours. RuntimeError with what it said, if it fails."""
    here = {"JUPYTER_CONFIG_DIR": str(folder / "jupyter"), "IPYTHONDIR": str(folder / "ipython")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **here, "PATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stdout[-3000:]}")


def read_points(file: Path) -> dict[str, float]:
    """Points by student, of a grades.csv."""
    with file.open(encoding="utf-8", newline="") as stream:
        return {row["student_id"]: float(row["raw_score"]) for row in csv.DictReader(stream)}


def disagreements(ours: dict[str, float], theirs: dict[str, float]) -> list[str]:
    """Students to whom the two give different points."""
    return [
        f"{student}: rankzero {ours.get(student)}, nbgrader {theirs.get(student)}"
        for student in sorted(ours.keys() | theirs.keys())
        if ours.get(student) != theirs.get(student)
    ]


def compare(sides: tuple[RankZero, NbGrader], turns: int, size: int) -> None:
    """Times everything, turn by turn, and prints it."""
    for side in sides:
        side.hand_in("full")
        side.hand_in("empty", empty=True)
    sides[1].make_assignment()
    for turn in range(turns):
        for side in sides:
            side.totals.append(side.seconds("full"))
        print(f"turn {turn + 1}: " + ", ".join(f"{side.name} {side.totals[-1]:.2f} s" for side in sides))
    wrongs = itertools.cycle(known_wrong(LAB).values())
    for number, wrong in zip(range(1, size - 1), wrongs, strict=False):  # "full" and "empty" are of the class too
        for side in sides:
            side.hand_in(f"wrong-{number:03}", wrong)
    for side in sides:
        side.a_class = side.seconds("*")
        side.work = side.work_on("full")


def tell(sides: tuple[RankZero, NbGrader], size: int) -> None:
    """The medians and their ratios."""
    for side in sides:
        total = statistics.median(side.totals)
        print(
            f"{side.name}: one submission {total:.2f} s, of which {100 * (1 - side.work / total):.0f} % is start-up; "
            f"a class of {size} {side.a_class:.1f} s, {side.a_class / size:.2f} s a submission"
        )
    ours, theirs = sides
    one = statistics.median(theirs.totals) / statistics.median(ours.totals)
    print(f"nbgrader takes {one:.1f}x as long for one submission, {theirs.a_class / ours.a_class:.1f}x for the class")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--turns", type=int, default=5, help="times that one submission is graded (default: 5)")
    parser.add_argument("--students", type=int, default=20, help="submissions in the class, 3 or more (default: 20)")
    options = parser.parse_args()
    try:
        nbgrader = version("nbgrader")
    except PackageNotFoundError:
        sys.exit("nbgrader is not installed here: pip install -e '.[benchmark]', or make benchmark-grading.")
    facts = fingerprint()
    print(f"{facts['date']}  {facts['cpu']}, {facts['cpu_cores']} cores, load before {os.getloadavg()[0]:.1f}")
    print(f"Python {facts['python']}, torch {facts['torch']}, nbgrader {nbgrader}, commit {facts['commit']}")
    with tempfile.TemporaryDirectory() as folder:
        sides = RankZero("rankzero", Path(folder, "rankzero")), NbGrader("nbgrader", Path(folder, "nbgrader"))
        compare(sides, options.turns, options.students)
        tell(sides, options.students)
        points = sides[0].points()
        wrong = disagreements(points, sides[1].points())
    if wrong:
        sys.exit("The points disagree:\n  " + "\n  ".join(wrong))
    print("Both give the same points: " + ", ".join(f"{name} {value:g}" for name, value in sorted(points.items())))


if __name__ == "__main__":
    main()
