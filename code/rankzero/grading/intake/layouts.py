"""What each student handed in, in the ways in which course systems lay it out."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.grading.grade import Student
from rankzero.grading.intake.archives import archive_stem
from rankzero.grading.intake.match_student import StudentMatcher, system_name
from rankzero.grading.intake.roster import Roster, split_name
from rankzero.grading.intake.safe_names import printable
from rankzero.grading.intake.submission_source import METADATA, SubmissionSource, expand_archives, read_archive
from rankzero.grading.intake.timestamps import parse_time
from rankzero.grading.intake.untrusted_files import MIB, Entry, RefusedError, refused


@dataclass(frozen=True)
class Handin:
    """What one student, or a group, handed in at one place."""

    name: str  # of that place, as found
    students: tuple[Student, ...]
    entries: list[Entry]
    lab: str = ""  # the lab that an exercises.py at the top is for, if the place says so
    exact: bool = True  # whether the place is named by the very id
    serial: int = 0  # higher is newer, where the system counts
    submitted_at: str = ""  # where the system says so
    timestamps: bool = False  # whether a timestamp.txt beside a file is the system's, not the student's
    alone: bool = False  # a file that stands alone: its name is the place's


def read_source(
    shelf: SubmissionSource,
    labs: Sequence[Lab],
    roster: Roster | None,
    max_bytes: Callable[[tuple[str, ...]], int],
    lab: str = "",
) -> Iterator[Handin]:
    """Everything on the shelf that somebody handed in; `lab`, if all of it is for that one.

    UserError where Gradescope's metadata cannot be read.
    """
    owners = StudentMatcher([*shelf.folders, *(_own_name(name) for name in shelf.files)], labs, roster)
    gradescope = _metadata(shelf.files[METADATA]) if METADATA in shelf.files else {}
    for name in shelf.folders:
        about = gradescope.get(name)
        one = _of_gradescope(name, about, owners) if about else _of_owner(name, owners, name)
        try:
            entries = expand_archives(shelf, name, shelf.folder(name), max_bytes)
        except RefusedError as error:
            entries = [refused((), str(error))]
        yield replace(one, entries=entries, lab=one.lab or lab, timestamps=shelf.name == "submitted")
    for name, entry in shelf.files.items():
        if name != METADATA and _counts(name, entry, owners):
            one = replace(_of_owner(name, owners, _own_name(name)), alone=True)
            if archive_stem(name):
                one = replace(one, entries=read_archive(shelf, (name,), entry, max_bytes), alone=False)
            else:
                one = replace(one, entries=[replace(entry, path=(_inner_name(name, entry),))])
            yield replace(one, lab=one.lab or lab)


def _of_owner(name: str, owners: StudentMatcher, own_name: str) -> Handin:
    owner = owners.of(own_name)
    return Handin(name, (owner.student,), [], owner.lab, owner.exact, owner.serial)


def _own_name(name: str) -> str:
    """Of a file among folders: what names its student. Moodle's and Canvas's names do as they are."""
    if system_name(name):
        return name
    stem = archive_stem(name) or os.path.splitext(name)[0]
    return re.sub(r"[-_ ]exercises$", "", stem, flags=re.IGNORECASE)


def _inner_name(name: str, entry: Entry) -> str:
    """What the student called the file; alice.py is taken for exercises.py, and so is a link where a folder may be."""
    if system := system_name(name):
        return system["rest"] or name
    return "exercises.py" if name.lower().endswith(".py") or entry.why else name


def _counts(name: str, entry: Entry, owners: StudentMatcher) -> bool:
    """Whether a file among folders is a submission: a notes.txt that names nobody is none."""
    if entry.why or archive_stem(name) or name.lower().endswith((".py", ".ipynb")):
        return True
    return bool(system_name(name) or owners.who([_own_name(name)]))


def _of_gradescope(name: str, about: Any, owners: StudentMatcher) -> Handin:
    students = []
    group = _get(about, "submitters")
    for one in group if isinstance(group, list) else []:
        sid, email, full = (str(_get(one, key) or "").strip() for key in ("sid", "email", "name"))
        first, last = split_name(full)
        own = Student(owners.stranger(sid or email or full, name), last, first, email)
        sure = owners.who([sid]) or owners.who([email])  # a name alone says less, and never more
        students.append(owners.who([sid, email] if sure else [full]) or own)
    try:
        when = parse_time(str(_get(about, "created_at") or "")).isoformat()
    except UserError:
        when = ""
    return Handin(name, tuple(dict.fromkeys(students)) or (Student(owners.stranger("", name)),), [], submitted_at=when)


def _metadata(entry: Entry) -> Mapping[Any, Any]:
    """Gradescope's file. UserError if it cannot be read."""
    try:
        values = _plain_values(entry.read(64 * MIB))
    except RefusedError as error:
        told = str(error)
    except (yaml.YAMLError, ValueError) as error:
        told = f"is not valid YAML: {printable(' '.join(str(error).split()))}"
    else:
        return values if isinstance(values, dict) else {}
    raise UserError(f"{METADATA} {told}: export the submissions from Gradescope again.")


def _plain_values(data: bytes, depth: int = 5) -> Any:
    """What the YAML says down to `depth`, all values as strings: an id of 0123 is no number, and no tag does anything.

    Made of the parser's events, since PyYAML's own loader kills the process on a file that is nested deeply enough.
    """
    top: list[Any] = []
    stack: list[Any] = [top]  # what is open; a mapping as a list of keys and values in turn
    for event in yaml.parse(data, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append([])
            if len(stack) > 100:
                raise ValueError("nested more than 100 deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            inner: Any = stack.pop()
            if isinstance(event, yaml.MappingEndEvent):
                pairs = zip(inner[::2], inner[1::2], strict=True)
                inner = {key: value for key, value in pairs if isinstance(key, str)}
            if len(stack) <= depth:
                stack[-1].append(inner)
        elif isinstance(event, yaml.ScalarEvent | yaml.AliasEvent) and len(stack) <= depth:
            stack[-1].append(getattr(event, "value", None))
    return top[0] if top else None


def _get(values: Any, key: str) -> Any:
    """Gradescope writes its keys as Ruby does, `:name`."""
    return (values.get(f":{key}") or values.get(key)) if isinstance(values, dict) else None
