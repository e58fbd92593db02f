"""Curriculum: the labs, the paths of their files, and the contents of their `lab.toml`.

A lab is a folder `code/lab-NN-name` with a `lab.toml`; no list of labs is kept anywhere else.
"""

import functools
import importlib.util
import itertools
import json
import os
import sys
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from rankzero.errors import UserError

try:
    from annotated_types import Interval
except ModuleNotFoundError:  # a GPU machine with torch alone: files are read as they are, see `validate`
    Interval = lambda **limits: str(limits)  # type: ignore[assignment, misc] # noqa: E731

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
Part = Literal["Before the loop", "One device", "Many devices", "Under the hood and all together"]  # of the curriculum


@dataclass(frozen=True)
class LatePolicy:
    """The points that late submissions lose: a manifest's table [grading.late]."""

    percent_per_day: Annotated[float, Interval(ge=0, le=100)] = 0  # of the lab's points, per day begun after the grace
    max_days: Annotated[int, Interval(ge=0, le=366)] | None = None  # later submissions get no points
    grace_hours: Annotated[float, Interval(ge=0, le=8784)] = 0  # lateness without loss of points, not counted in days


@dataclass(frozen=True)
class Grading:
    """The rules of grading a class in a lab: a manifest's table [grading]. Every key has a default."""

    late: LatePolicy = LatePolicy()
    visibility: Literal["visible", "hidden", "after_due_date", "after_published"] = "visible"  # on Gradescope


@dataclass(frozen=True)
class Manifest:
    """The keys of a `lab.toml`, all required except `draft` and `grading`."""

    title: str
    part: Part
    summary: str
    starter: str  # name of a file in the same folder
    chapters: list[str]  # handbook chapters, by file name without .md
    minutes: Annotated[int, Interval(ge=1)]
    difficulty: Literal["beginner", "intermediate", "hard"]
    needs: list[Literal["cpu", "cuda", "ranks"]]
    draft: bool = False  # not finished: see `all_labs`
    grading: Grading = Grading()


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
    minutes: int  # to read the page, run the starter and solve the exercises
    difficulty: str
    needs: tuple[str, ...]  # "cpu", "cuda" or "ranks": required to run the lab
    root: Path
    draft: bool = False  # not finished: see `all_labs`
    grading: Grading = Grading()

    @property
    def folder(self) -> Path:
        """The folder of the starter, its README and the exercises without answers."""
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
        """The folder of the sources of truth: answers and the notebook's text."""
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
    def known_wrong(self) -> Path:
        """The known-wrong solutions and hurried answers, as changes to `reference`."""
        return self.solutions / "known_wrong.py"

    @property
    def stubs(self) -> Path:
        """The exercises without answers, made from `reference`."""
        return self.folder / "exercises.py"

    @property
    def mine(self) -> Path:
        """The functions of the starter that the learner's replace in `rankzero run --mine`; labs may lack it."""
        return self.folder / "mine.py"

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
        """The folder of attacks, files that try to pass this lab's checks without solving the exercises."""
        return self.tests / "attacks"

    @property
    def claims(self) -> Path:
        """Claims of the lab's page, each with the function that measures its number."""
        return self.tests / "claims.py"

    @property
    def figures(self) -> Path:
        """Figures of the lab's page, each with the function that draws it."""
        return self.tests / "figures.py"

    def owns(self, file: Path) -> bool:
        """Returns whether a file or folder is one of this lab's."""
        folders = {self.folder, self.solutions, self.tests}
        return file in {self.page, self.notebook} or not folders.isdisjoint([file, *file.parents])

    def import_starter(self) -> ModuleType:
        """Returns the starter as a module, so that notebooks and tests use its functions instead of copies."""
        name = self.starter.stem
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, self.starter)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        return sys.modules[name]


def all_labs(root: Path = ROOT, *, drafts: bool = False) -> list[Lab]:
    """Returns every finished lab of the repository at `root`, by number. UserError if a manifest is wrong.

    With `drafts`, also the labs that are not finished (`draft = true` in their `lab.toml`). `rankzero list` shows
    drafts, the commands take their numbers, and `rankzero verify-lab` checks them. The tests, the tables, the site and
    the commands that work on all labs leave drafts out.
    """
    labs = [_read(path, root) for path in sorted((root / "code").glob("lab-*/lab.toml"))]
    for before, after in itertools.pairwise(labs):
        if before.number == after.number:
            raise UserError(f"{after.folder / 'lab.toml'}: lab {after.number} exists already, as {before.slug}.")
    return [lab for lab in labs if drafts or not lab.draft]


def find_lab(number: str, root: Path = ROOT) -> Lab:
    """Returns the lab, finished or draft, named '2', '02', 'lab-02' or by its folder. UserError if there is none."""
    labs = all_labs(root, drafts=True)
    digits = number.removeprefix("lab-")
    for lab in labs:
        if number == lab.slug or (digits.isdecimal() and int(digits) == int(lab.number)):
            return lab
    raise UserError(f"there is no lab {number!r}: the labs are {', '.join(lab.number for lab in labs) or 'none yet'}.")


def find_lab_with_exercises(number: str) -> Lab:
    """Returns the lab of that number. UserError if there is none or it has no exercises."""
    lab = find_lab(number)
    if not lab.checks.exists():
        raise UserError(f"lab {lab.number} has no exercises yet.")
    return lab


def path_from_here(path: Path) -> str:
    """Returns the path relative to the current folder inside the repository, and the whole path elsewhere."""
    return os.path.relpath(path) if Path.cwd().is_relative_to(ROOT) else str(path)


def validate(kind: type[T], table: Any, source: Path | str, key: str = "") -> T:
    """Returns the dataclass `kind` made of the table `key` of `source`.

    UserError names the source, the first wrong key, its value and what is expected.
    """
    try:
        from pydantic import ValidationError  # here, so that starters and notebooks do not import it
    except ModuleNotFoundError:
        return kind(**table)
    try:
        # Strict validation accepts a JSON object as a dataclass, but not a dictionary.
        adapter = _adapter(kind)  # type: ignore[arg-type]  # a class is hashable
        valid: T = adapter.validate_json(json.dumps(table, default=str), strict=True, extra="forbid")
        return valid
    except ValidationError as error:
        mistake = error.errors()[0]
        location: list[Any] = [key, *mistake["loc"]] if key else [*mistake["loc"]]
        if mistake["type"] == "missing":
            text = "is missing"
        elif mistake["type"] == "unexpected_keyword_argument":
            owner: Any = kind
            for part in mistake["loc"][:-1]:
                owner = get_type_hints(owner)[str(part)]
            text = f"is not known; the keys are {', '.join(field.name for field in fields(owner))}"
        else:
            expected = mistake["msg"].replace("Input should be", "it must be").replace(" an object", " a table")
            text = f"is {mistake['input']!r}; {expected}"
        name = ".".join(map(str, location))
        raise UserError(f"{source}: key '{name}' {text}.") from None


@functools.cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@functools.cache
def _manifest(path: Path, changed_ns: int) -> Manifest:
    """Returns the manifest in a lab's `lab.toml` as it was at `changed_ns`. UserError if it is wrong."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML ({error}).") from None
    return validate(Manifest, table, path)


def _read(path: Path, root: Path) -> Lab:
    slug = path.parent.name
    number = slug.removeprefix("lab-").split("-")[0]
    if len(number) != 2 or not number.isdecimal() or slug == f"lab-{number}":
        raise UserError(f"{path}: its folder must be named lab-NN-name, with two digits.")
    manifest = _manifest(path, path.stat().st_mtime_ns)
    starter = path.parent / manifest.starter
    chapters = tuple(root / "handbook" / f"{name}.md" for name in manifest.chapters)
    for key, file in [("starter", starter), *(("chapters", chapter) for chapter in chapters)]:
        if not file.is_file():
            raise UserError(f"{path}: key '{key}' names {file.relative_to(root)}, which does not exist.")
    files = {"starter": starter, "chapters": chapters, "needs": tuple(manifest.needs)}
    return Lab(number=number, slug=slug, root=root, **vars(manifest) | files)
