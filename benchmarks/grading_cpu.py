"""CPU time that grading takes per submission and lab, with full isolation and three seeds.

Each lab's class is a quarter references and three quarters known-wrong solutions. One worker grades it; the CPU time is
that of the grader, of the sandbox and of the process that runs references, with all processes that they started. So it
hardly depends on other programs' share of the cores, though a busy machine's caches make it longer. Start-up, which a
class pays once, is not counted. Prints the CPU seconds per submission, and those of references alone.

    python benchmarks/grading_cpu.py --students 40 02 04
"""

import argparse
import os
import tempfile
from pathlib import Path

import psutil

from rankzero.curriculum import Lab, all_labs, find_lab
from rankzero.exercises.checks.known_wrong import known_wrong, wrong_source
from rankzero.grading.grade import Student, Submission
from rankzero.grading.grader import Grader, GradingSettings
from rankzero.grading.seed_pool import SeedPool
from rankzero.learn.machine.fingerprint import fingerprint


def cpu_seconds() -> float:
    """Returns the CPU seconds so far of this process and of all processes below it, the ended ones included."""
    own = psutil.Process()
    seconds = own.cpu_times().user + own.cpu_times().system
    for process in own.children(recursive=True):
        times = process.cpu_times()
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def class_of(lab: Lab, students: int) -> list[tuple[bool, str]]:
    """Returns for each student whether the submission is the reference, and its source."""
    wrong, reference = list(known_wrong(lab).values()), lab.reference.read_text(encoding="utf-8")
    return [
        (True, reference) if number % 4 == 0 else (False, wrong_source(lab, wrong[number * len(wrong) // students]))
        for number in range(students)
    ]


def measure(lab: Lab, students: int) -> str:
    """Grades a class and returns a line of results."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with (
        tempfile.TemporaryDirectory() as folder,
        Grader(GradingSettings((lab.number,), SeedPool("benchmark"))) as grader,
    ):
        file = Path(folder) / "exercises.py"

        def grade(student: str, source: str) -> None:
            file.write_text(source, encoding="utf-8")
            grader.grade(Submission(Student(student), lab.number, file))

        grade("warm-up", lab.reference.read_text(encoding="utf-8"))
        for number, (is_reference, source) in enumerate(class_of(lab, students)):
            before = cpu_seconds()
            grade(str(number), source)
            seconds[is_reference].append(cpu_seconds() - before)
    mean = sum(map(sum, seconds.values())) / students
    reference = sum(seconds[True]) / len(seconds[True])
    return f"lab {lab.number}: {mean:.2f} CPU seconds per submission, {reference:.2f} per reference"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("labs", nargs="*", metavar="LAB", help="number of a lab (default: all labs)")
    parser.add_argument("--students", type=int, default=40, help="submissions per lab (default: 40)")
    options = parser.parse_args()
    facts = fingerprint()
    print(f"{facts['date']}  {facts['cpu']}, {facts['cpu_cores']} cores, load before {os.getloadavg()[0]:.1f}")
    for lab in [find_lab(number) for number in options.labs] or all_labs():
        print(measure(lab, options.students), flush=True)


if __name__ == "__main__":
    main()
