"""Attack corpus: files that try to get points or harm by foul means, and the points that each of them honestly earns.

An attack is `tests/attacks/NAME.py`. It holds only the attacking code; the other code of the submission is the lab's
stubs or its reference. Its docstring says what it tries, and constants give the expected result::

    ON, EARNS = "reference", 40   # or "stubs"; and points, from 0
    STATUS = "killed"             # of the first check that does not pass, where that is certain
    LAB = "02"                    # the default
    SECONDS = 2.0                 # its time limit, by default 60
    MEMORY = 512                  # its memory limit in MiB, by default 1024
    CHANGES = True                # two gradings may differ
    RECORDS = True                # gets the reference's answers for another seed, as `RECORDED`
    FILE = [("(", 100000), ...]   # the whole file: texts, and how often each is repeated

An attack on the checks of one lab is `tests/lab-NN-name/attacks/NAME.py`: a whole file, whose `EARNS` may map
exercises to points. The code of `_tools.py` precedes every attack; an attack that succeeds reports it by `won`.
"""

import ast
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankzero.curriculum import ROOT, Lab, all_labs, find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.probe_client import ProbeClient
from rankzero.exercises.probes.answers import encode
from rankzero.grading.grade import Grade

FOLDER = ROOT / "tests" / "attacks"
CONSTANTS = {"ON", "EARNS", "STATUS", "LAB", "SECONDS", "MEMORY", "CHANGES", "RECORDS", "FILE"}
WON = "WON:"  # printed by an attack that succeeds


@dataclass(frozen=True)
class Attack:
    """One file of the corpus."""

    name: str
    path: Path
    tries: str
    earns: int
    by_exercise: Mapping[str, int] = field(default_factory=dict)  # of EARNS, if it maps exercises to points
    on: str = ""
    lab: str = "02"
    status: str = ""
    seconds: float = 60.0
    memory: int = 1024
    changes: bool = False
    records: bool = False
    file: tuple[tuple[str | bytes, int], ...] = ()

    def source(self, recorded: Mapping[str, str] | None = None, **places: object) -> bytes:
        """Returns the submission. `places` are variables of the attack, such as the path of a secret."""
        if self.file:
            return b"".join((text if isinstance(text, bytes) else text.encode()) * times for text, times in self.file)
        variables = places | {"ROOT": str(ROOT), "RECORDED": dict(recorded or {})}
        tools = "".join(f"{name} = {json.dumps(value)}\n" for name, value in variables.items())
        tools += (FOLDER / "_tools.py").read_text(encoding="utf-8")
        return "\n\n".join([self.base, tools, self.path.read_text(encoding="utf-8")]).encode()

    @property
    def base(self) -> str:
        """The lab's file that the attack is written below, or ''."""
        lab = find_lab(self.lab)
        return {"stubs": lab.stubs, "reference": lab.reference}[self.on].read_text("utf-8") if self.on else ""


@functools.cache
def attacks() -> tuple[Attack, ...]:
    """Returns the corpus, read without running it. ValueError for a file that lacks a constant."""
    general = [_read(file) for file in sorted(FOLDER.glob("[!_]*.py"))]
    return (*general, *(_read(file, lab) for lab in all_labs() for file in sorted(lab.attacks.glob("*.py"))))


def _read(file: Path, lab: Lab | None = None) -> Attack:
    """Reads one attack; `lab` is given for an attack on the checks of one lab."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    constants: dict[str, Any] = {}
    for node in tree.body:
        names = ast.unparse(node.targets[0]).strip("()").split(", ") if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.Assign) and CONSTANTS.issuperset(names):
            values = ast.literal_eval(node.value)
            constants |= zip([name.lower() for name in names], values if len(names) > 1 else [values], strict=True)
    tries = ast.get_docstring(tree)
    if not tries or "earns" not in constants or constants.get("on", "") not in ("stubs", "reference", ""):
        raise ValueError(f"{file}: it needs a docstring, EARNS and ON.")
    constants |= {"file": tuple(constants.get("file", ()))} | ({"lab": lab.number} if lab else {})
    if isinstance(points := constants["earns"], dict):
        constants |= {"earns": sum(points.values()), "by_exercise": points}
    name = f"lab-{lab.number}/{file.stem}" if lab else file.stem
    return Attack(name=name, path=file, tries=" ".join(tries.split()), **constants)


def recorded_answers(lab: Lab, seed: int, client: ProbeClient) -> dict[str, str]:
    """Returns the reference's encoded answers for a seed, by the probe's name."""
    probes = {check.probe: (exercise, check) for exercise in exercises_of(lab) for check in exercise.checks}
    return {
        probe: encode(client.ask(lab, lab.reference, exercise, check, seed).answers).decode()
        for probe, (exercise, check) in probes.items()
    }


def attack_failure(attack: Attack, grade: Grade) -> str:
    """Returns the difference between the attack's grade and the expected one in a sentence, or ''."""
    if grade.trouble or grade.report is None:
        return f"it cannot be graded ({grade.trouble})"
    texts = "\n".join(f"{result.text}\n{result.printed}" for result in grade.report.results)
    if won := [line for line in texts.splitlines() if WON in line]:
        return f"it succeeded ({won[0]})"
    if grade.points != attack.earns:
        return f"it got {grade.points} points; it earns {attack.earns}"
    first = next((result.status for result in grade.report.results if result.status != "pass"), "pass")
    if attack.status not in ("", first):
        return f"its first failure has the status {first}; expected {attack.status}"
    return ""
