"""Tables of labs in README.md and handbook/README.md: the labs that exist, from lab.toml, and the planned labs.

Two blocks (`generated_blocks.py`) are filled, each with the labs in the order of their numbers::

    <!-- labs: by number -->    one row per lab: title, summary, minutes, difficulty
    <!-- labs: by part -->      one row per part of the curriculum, with the titles of its labs

Planned labs are listed in labs/planned.toml. A planned lab leaves the tables when a lab with its number exists.
"""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from rankzero.curriculum import Lab, all_labs
from rankzero.errors import UserError
from rankzero.publish.generated_blocks import fill_blocks


@dataclass(frozen=True)
class PlannedLab:
    """One lab that is not written yet: a table [[lab]] of labs/planned.toml."""

    number: str
    title: str
    part: str
    summary: str


def planned_labs(root: Path) -> list[PlannedLab]:
    """Returns the planned labs that do not exist yet. UserError where labs/planned.toml is malformed."""
    file = root / "labs" / "planned.toml"
    if not file.exists():
        return []
    existing = {lab.number for lab in all_labs(root, drafts=True)}
    try:
        planned = [PlannedLab(**table) for table in tomllib.loads(file.read_text(encoding="utf-8"))["lab"]]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{file}: expected tables [[lab]] with number, title, part and summary ({error}).") from None
    return [lab for lab in planned if lab.number not in existing]


def fill(page: Path, text: str, root: Path) -> str:
    """Returns `text`, the text of `page`, with its tables of labs filled. UserError for a table of another name."""
    tables = {"by number": _by_number, "by part": _by_part}

    def table(name: str, _: str) -> str:
        if name not in tables:
            raise LookupError(f"there is no such table; the tables are {', '.join(tables)}")
        return tables[name](
            sorted([*all_labs(root, drafts=True), *planned_labs(root)], key=lambda lab: lab.number), page.parent
        )

    return fill_blocks(page, text, "labs", table)


def _is_finished(lab: Lab | PlannedLab) -> TypeGuard[Lab]:
    return isinstance(lab, Lab) and not lab.draft


def _name(lab: Lab | PlannedLab, folder: Path) -> str:
    """Returns the lab's number and title, with a link from a page in `folder` where the lab is finished."""
    name = f"{lab.number} {lab.title}"
    return f"[{name}]({os.path.relpath(lab.page, folder)})" if _is_finished(lab) else name


def _by_number(labs: list[Lab | PlannedLab], folder: Path) -> str:
    rows = ["| lab | what you will see | minutes | difficulty |", "|---|---|---|---|"]
    for lab in labs:
        state = "draft |" if isinstance(lab, Lab) else "planned |"
        effort = f"{lab.minutes} | {lab.difficulty}" if _is_finished(lab) else state
        rows.append(f"| {_name(lab, folder)} | {lab.summary} | {effort} |")
    return "\n".join(rows) + "\n"


def _by_part(labs: list[Lab | PlannedLab], folder: Path) -> str:
    rows = ["| part | labs |", "|---|---|"]
    for number, part in enumerate(dict.fromkeys(lab.part for lab in labs)):
        rows.append(f"| {number} · {part} | {', '.join(_name(lab, folder) for lab in labs if lab.part == part)} |")
    return "\n".join(rows) + "\n"
