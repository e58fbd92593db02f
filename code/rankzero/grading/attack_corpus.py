"""The attack corpus: files that a class could hand in, and what each of them honestly earns.

An attack is `tests/attacks/NAME.py`. It holds only the attacking code; the rest of the file that is handed in comes
from the lab's stubs or its reference. Its docstring says what it tries, and constants say the rest::

    ON, EARNS = "reference", 40   # or "stubs"; and points, from 0
    STATUS = "killed"             # of the first check that is not passed, where that is certain
    LAB = "02"                    # unless it is this
    SECONDS = 2.0                 # the time limit for it, unless it is that of every submission
    MEMORY = 512                  # MiB, likewise
    CHANGES = True                # two gradings of it need not say the same
    SLOW = True                   # takes too long for `make test`
    RECORDS = True                # wants the reference's answers for another seed, as `RECORDED`
    FILE = [("(", 100000), ...]   # the whole file: texts, and how often each

An attack on the checks of one lab is `tests/lab-NN-name/attacks/NAME.py`: a whole file, whose `EARNS` may map
exercises to points.
What `_tools.py` holds comes before it: an attack that gets what it wants says so with `won`.
"""

import ast
import functools
import json
import os
import secrets
import socket
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rankzero.curriculum import ROOT, Lab, all_labs, find_lab
from rankzero.exercises.checks.check import exercises_of
from rankzero.exercises.checks.runner import ProbeRunner
from rankzero.exercises.probes.answers import encode
from rankzero.grading.grade import Grade

FOLDER = ROOT / "tests" / "attacks"
KNOWN = {"ON", "EARNS", "STATUS", "LAB", "SECONDS", "MEMORY", "CHANGES", "SLOW", "RECORDS", "FILE"}
WON = "WON:"  # printed by an attack that got what it must not get


@dataclass(frozen=True)
class Attack:
    """One file of the corpus."""

    name: str
    path: Path
    tries: str
    on: str
    earns: int
    lab: str = "02"
    status: str = ""
    seconds: float = 60.0
    memory: int = 1024
    changes: bool = False
    slow: bool = False
    records: bool = False
    file: tuple[tuple[str | bytes, int], ...] = ()

    def source(self, recorded: Mapping[str, str] | None = None, **places: object) -> bytes:
        """The file as it is handed in. `places` are names that the attack may use, such as where a secret lies."""
        if self.file:
            return b"".join((text if isinstance(text, bytes) else text.encode()) * times for text, times in self.file)
        named = places | {"ROOT": str(ROOT), "RECORDED": dict(recorded or {})}
        tools = "".join(f"{name} = {json.dumps(value)}\n" for name, value in named.items())
        tools += (FOLDER / "_tools.py").read_text(encoding="utf-8")
        return "\n\n".join([_base(find_lab(self.lab), self.on), tools, self.path.read_text(encoding="utf-8")]).encode()


@functools.cache
def attacks() -> tuple[Attack, ...]:
    """The corpus, read without running any of it. ValueError for a file that lacks a constant."""
    general = [_read(file) for file in sorted(FOLDER.glob("[!_]*.py"))]
    return (*general, *(_read(file, lab) for lab in all_labs() for file in sorted(lab.attacks.glob("*.py"))))


def _base(lab: Lab, on: str) -> str:
    return {"stubs": lab.stubs, "reference": lab.reference}[on].read_text(encoding="utf-8") if on != "nothing" else ""


def _read(file: Path, lab: Lab | None = None) -> Attack:
    """Reads one attack; `lab` is the lab whose checks it attacks, if it attacks one lab's checks only."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    constants: dict[str, Any] = {}
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and not set(names := ast.unparse(node.targets[0]).strip("()").split(", ")) - KNOWN
        ):
            values = ast.literal_eval(node.value)
            constants |= zip([name.lower() for name in names], values if len(names) > 1 else [values], strict=True)
    tries = ast.get_docstring(tree)
    if not tries or "earns" not in constants or constants.get("on", "nothing") not in ("stubs", "reference", "nothing"):
        raise ValueError(f"{file}: it needs a docstring, EARNS and ON.")
    constants |= {"on": constants.get("on", "nothing"), "file": tuple(constants.get("file", ()))}
    if lab:
        constants |= {"lab": lab.number, "slow": True}
    if isinstance(earned := constants["earns"], dict):
        constants["earns"] = sum(earned.values())
    name = f"lab-{lab.number}/{file.stem}" if lab else file.stem
    return Attack(name=name, path=file, tries=" ".join(tries.split()), **constants)


def recorded(lab: Lab, seed: int, worker: ProbeRunner) -> dict[str, str]:
    """The reference's answers for this seed, as a probe would send them, by the probe's name."""
    asked = {check.probe: (exercise, check) for exercise in exercises_of(lab) for check in exercise.checks}
    return {
        probe: encode(worker.ask(lab, lab.reference, exercise, check, seed).answers).decode()
        for probe, (exercise, check) in asked.items()
    }


def says_against(attack: Attack, grade: Grade) -> str:
    """What is wrong with this grade of the attack, in a sentence; empty if it is as it should be."""
    if grade.trouble or grade.report is None:
        return f"it cannot be graded ({grade.trouble})"
    told = [line for one in grade.report.results for line in f"{one.text}\n{one.printed}".splitlines()]
    if won := [line for line in told if WON in line]:
        return f"it got what it must not get ({won[0]})"
    if grade.points != attack.earns:
        return f"it got {grade.points} points; it earns {attack.earns}"
    first = next((one.status for one in grade.report.results if one.status != "pass"), "pass")
    if attack.status not in ("", first):
        return f"its first failure has the status {first}; expected {attack.status}"
    return ""


class Canaries:
    """What an attack must not reach: a service of this machine, a file of whoever grades, a word in the environment."""

    def __init__(self) -> None:
        self._mark = f"rankzero-canary-{secrets.token_hex(8)}"
        self._stack = ExitStack()

    def __enter__(self) -> "Canaries":
        self._tcp = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._unix = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        self._unix.bind(f"\0{self._mark}")
        self._unix.listen()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix=".rankzero-", dir=Path.home()))
        self._secret = Path(folder) / "secret"
        self._secret.write_text(self._mark)
        os.environ["RANKZERO_CANARY"] = self._mark
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        os.environ.pop("RANKZERO_CANARY", None)

    @property
    def places(self) -> dict[str, object]:
        """Where they are, for an attack to try."""
        return {"PORT": self._tcp.getsockname()[1], "SECRET": str(self._secret), "MARK": self._mark}

    def touched(self) -> list[str]:
        """Those that somebody has reached since this was asked last, or changed."""
        found = []
        for name, server in (("the TCP port", self._tcp), ("the abstract socket", self._unix)):
            server.setblocking(False)
            with suppress(BlockingIOError):
                server.accept()[0].close()
                found.append(name)
        same = self._secret.is_file() and self._secret.read_text() == self._mark
        return found if same and len(os.listdir(self._secret.parent)) == 1 else [*found, "the secret file"]
