"""Which labs exist and where their files are.

A lab is a folder `code/lab-NN-name` with a `lab.toml`; no list of labs is kept anywhere else.
"""

import importlib.util
import itertools
import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from rankzero.errors import UserError

ROOT = Path(__file__).resolve().parents[2]

# The manifest's keys and their types; every one is required. A table [grading] may follow them.
_KEYS: dict[str, type] = {
    "title": str,
    "part": str,
    "summary": str,
    "starter": str,
    "chapters": list,
    "minutes": int,
    "difficulty": str,
    "needs": list,
}

# Who sees a lab's points on Gradescope, and when: Gradescope's words.
VISIBILITIES = ("visible", "hidden", "after_due_date", "after_published")


@dataclass(frozen=True)
class LatePolicy:
    """The points that late submissions lose: a manifest's table [grading.late]. UserError for a value out of range."""

    percent_per_day: float = 0  # of the lab's points, for each day begun after the grace period
    max_days: int | None = None  # submissions later than this get no points; with 0, no late submission gets any
    grace_hours: float = 0  # these cost nothing and count for no day

    def __post_init__(self) -> None:
        """Checks types and ranges."""
        for key, kind, most in (("percent_per_day", float, 100), ("max_days", int, 366), ("grace_hours", float, 8784)):
            value = getattr(self, key)
            right_type = isinstance(value, kind | int) and not isinstance(value, bool)
            if not (right_type and 0 <= value <= most) and not (key == "max_days" and value is None):
                number = "whole number" if kind is int else "number"
                raise UserError(f"{key} is {value!r}; it must be a {number} from 0 to {most}.")


def read_late_policy(table: Any, source: str) -> LatePolicy:
    """Returns the policy of a table [grading.late]. UserError names `source`, the key and the value of a mistake."""
    keys = [key.name for key in fields(LatePolicy)]
    if not isinstance(table, dict):
        raise UserError(f"{source} is {table!r}; it must be a table with the keys {', '.join(keys)}.")
    if unknown := sorted(set(table) - set(keys)):
        raise UserError(f"{source}.{unknown[0]} is not known; the keys are {', '.join(keys)}.")
    try:
        return LatePolicy(**table)
    except UserError as error:
        raise UserError(f"{source}.{error}") from None


@dataclass(frozen=True)
class Grading:
    """How a class is graded in a lab whose manifest says nothing else: its table [grading]."""

    late: LatePolicy = LatePolicy()
    visibility: str = "visible"  # of points on Gradescope


@dataclass(frozen=True)
class Lab:
    """One lab, as its `lab.toml` and the layout of the repository define it."""

    number: str  # two digits, as in the folder's name
    slug: str  # the folder's name, lab-NN-name
    title: str
    part: str
    summary: str
    starter: Path
    chapters: tuple[Path, ...]  # handbook chapters to read with it
    minutes: int  # to read, run and do
    difficulty: str
    needs: tuple[str, ...]  # "cpu", "cuda" or "ranks": what it cannot run without
    root: Path
    grading: Grading = field(default_factory=Grading)

    @property
    def folder(self) -> Path:
        """Starter, README, later the exercises."""
        return self.root / "code" / self.slug

    @property
    def page(self) -> Path:
        """The lab's page."""
        return self.root / "labs" / f"{self.slug}.md"

    @property
    def notebook(self) -> Path:
        """The learner's notebook, made from `notebook_source`."""
        return self.root / "notebooks" / f"{self.slug}.ipynb"

    @property
    def solutions(self) -> Path:
        """Sources of truth: answers and the notebook's text."""
        return self.root / "solutions" / self.slug

    @property
    def notebook_source(self) -> Path:
        """The notebook with its answers, as a py:percent script."""
        return self.solutions / "notebook.py"

    @property
    def reference(self) -> Path:
        """The exercises with their answers: the source of truth."""
        return self.solutions / "exercises.py"

    @property
    def stubs(self) -> Path:
        """The exercises without answers, made from `reference`."""
        return self.folder / "exercises.py"

    @property
    def tests(self) -> Path:
        """The folder of the lab's probes, checks, claims and attacks, and of its starter's test."""
        return self.root / "tests" / self.slug

    @property
    def probes(self) -> Path:
        """The functions that run beside the learner's code."""
        return self.tests / "probes.py"

    @property
    def checks(self) -> Path:
        """The exercises' checks, with points, hints and judges."""
        return self.tests / "checks.py"

    @property
    def attacks(self) -> Path:
        """The folder of files that try to look right to this lab's checks."""
        return self.tests / "attacks"

    @property
    def claims(self) -> Path:
        """Claims of the lab's page, each with the function that measures its number."""
        return self.root / "tests" / self.slug / "claims.py"

    def import_starter(self) -> ModuleType:
        """The starter as a module, so that notebooks and tests use its functions instead of copies."""
        name = self.starter.stem
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, self.starter)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        return sys.modules[name]


def all_labs(root: Path = ROOT) -> list[Lab]:
    """Every lab of the repository at `root`, by number. UserError where one is wrong."""
    labs = [_read(path, root) for path in sorted((root / "code").glob("lab-*/lab.toml"))]
    for before, after in itertools.pairwise(labs):
        if before.number == after.number:
            raise UserError(f"{after.folder / 'lab.toml'}: lab {after.number} exists already, as {before.slug}.")
    return labs


def find_lab(number: str, root: Path = ROOT) -> Lab:
    """Returns the lab of that number: '2', '02', 'lab-02' or its whole folder name. UserError if there is none."""
    labs = all_labs(root)
    wanted = number.removeprefix("lab-")
    for lab in labs:
        if number == lab.slug or (wanted.isdecimal() and int(wanted) == int(lab.number)):
            return lab
    raise UserError(f"there is no lab {number!r}: the labs are {', '.join(lab.number for lab in labs) or 'none yet'}.")


def path_from_here(path: Path) -> str:
    """Returns the path relative to the current folder inside the repository, and the whole path elsewhere."""
    return os.path.relpath(path) if Path.cwd().is_relative_to(ROOT) else str(path)


def _read(path: Path, root: Path) -> Lab:
    def wrong(text: str) -> UserError:
        return UserError(f"{path}: {text}")

    try:
        manifest: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise wrong(f"not valid TOML ({error}).") from None
    slug = path.parent.name
    number = slug.removeprefix("lab-").split("-")[0]
    if len(number) != 2 or not number.isdecimal() or slug == f"lab-{number}":
        raise wrong("its folder must be named lab-NN-name, with two digits.")
    for key, kind in _KEYS.items():
        if key not in manifest:
            raise wrong(f"key '{key}' is missing.")
        if not isinstance(manifest[key], kind) or isinstance(manifest[key], bool):
            raise wrong(f"key '{key}' is {manifest[key]!r}; it must be of type {kind.__name__}.")
        if kind is list and not all(isinstance(item, str) for item in manifest[key]):
            raise wrong(f"key '{key}' is {manifest[key]!r}; it must be a list of strings.")
    if unknown := sorted(set(manifest) - set(_KEYS) - {"grading"}):
        raise wrong(f"key '{unknown[0]}' is not known; the keys are {', '.join(_KEYS)}.")
    starter = path.parent / manifest["starter"]
    chapters = tuple(root / "handbook" / f"{name}.md" for name in manifest["chapters"])
    for key, file in [("starter", starter), *(("chapters", chapter) for chapter in chapters)]:
        if not file.is_file():
            raise wrong(f"key '{key}' names {file.relative_to(root)}, which does not exist.")
    return Lab(
        number=number,
        slug=slug,
        starter=starter,
        chapters=chapters,
        needs=tuple(manifest["needs"]),
        root=root,
        grading=_grading(manifest.get("grading", {}), path, wrong),
        **{key: manifest[key] for key in ("title", "part", "summary", "minutes", "difficulty")},
    )


def _grading(table: Any, path: Path, wrong: Callable[[str], UserError]) -> Grading:
    if not isinstance(table, dict):
        raise wrong(f"key 'grading' is {table!r}; it must be a table, [grading].")
    known = [one.name for one in fields(Grading)]
    for key, value in table.items():
        if key not in known:
            raise wrong(f"key 'grading.{key}' is not known; the keys are {', '.join(known)}.")
        if key == "visibility" and value not in VISIBILITIES:
            raise wrong(f"key 'grading.visibility' is {value!r}; it must be one of {', '.join(VISIBILITIES)}.")
    late = read_late_policy(table.get("late", {}), f"{path}: grading.late")
    return Grading(**table | {"late": late})
