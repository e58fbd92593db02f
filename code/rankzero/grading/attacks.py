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

What `_tools.py` holds comes before it: an attack that gets what it wants says so with `won`.
"""

import ast
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankzero.curriculum import ROOT, Lab, find_lab

FOLDER = ROOT / "tests" / "attacks"
KNOWN = {"ON", "EARNS", "STATUS", "LAB", "SECONDS", "MEMORY", "CHANGES", "SLOW", "RECORDS", "FILE"}
WON = "WON:"  # printed by an attack that got what it must not get


@dataclass(frozen=True)
class Attack:
    """One file of the corpus."""

    name: str
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
        return "\n\n".join([_base(find_lab(self.lab), self.on), tools, _text(self.name)]).encode()


@functools.cache
def attacks() -> tuple[Attack, ...]:
    """The corpus, read without running any of it. ValueError for a file that lacks a constant."""
    return tuple(_read(file) for file in sorted(FOLDER.glob("[!_]*.py")))


def _base(lab: Lab, on: str) -> str:
    return {"stubs": lab.stubs, "reference": lab.reference}[on].read_text(encoding="utf-8") if on != "nothing" else ""


def _text(name: str) -> str:
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8")


def _read(file: Path) -> Attack:
    tree = ast.parse(_text(file.stem))
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
    return Attack(name=file.stem, tries=" ".join(tries.split()), **constants)
