"""Verify record: the faults found so far by `rankzero grade --verify`, so that a run that was stopped can go on."""

import json
from collections.abc import Sequence
from pathlib import Path

from rankzero.curriculum import ROOT, Lab
from rankzero.errors import UserError
from rankzero.exercises.checks.runner import new_seed
from rankzero.grading.lab_digest import lab_digest
from rankzero.grading.seed_pool import SEEDS

FILE = ROOT / ".rankzero" / "grade-verify.jsonl"
Key = tuple[str, str, str]  # lab, kind and name of a graded file


class VerifyRecord:
    """The seeds of a run, and its faults by file. A line is added for each file, so that a kill loses none."""

    def __init__(self, labs: Sequence[Lab], resume: bool, file: Path = FILE) -> None:
        """Reads the record of the run before if `resume`, else begins another. UserError where that does not fit."""
        digests = {lab.number: lab_digest(lab) for lab in labs}
        self._file, self.faults = file, dict[Key, str]()
        try:
            if resume:
                first, *lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
                if first["labs"] != digests:
                    raise UserError("other labs, or labs that have changed since: start again without --resume.")
                self.seeds = tuple(first["seeds"])
                self.faults = {(lab, kind, name): fault for lab, kind, name, fault in lines}
            else:
                self.seeds = tuple(new_seed() for _ in range(SEEDS))
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps({"labs": digests, "seeds": self.seeds}) + "\n", encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"there is no {file}, so no run to go on with: leave out --resume.") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{file} cannot be used ({error}): delete it, and leave out --resume.") from None

    def add(self, key: Key, fault: str) -> None:
        """Records the fault of one graded file, '' for none."""
        self.faults[key] = fault
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([*key, fault]) + "\n")
