"""Which of the files that a student handed in is the one for a lab."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.grading.intake.archives import archive_stem
from rankzero.grading.intake.layouts import Handin
from rankzero.grading.intake.safe_names import printable
from rankzero.grading.intake.submission_source import CODE, METADATA
from rankzero.grading.intake.timestamps import iso_utc, parse_time
from rankzero.grading.intake.untrusted_files import MIB, Entry, RefusedError

CODE_BYTES = MIB
NOTEBOOK_BYTES = 20 * MIB
MOST_READ = 8  # candidates of one student for one lab
MOST_NOTES = 6

_LAB = re.compile(r"(?<![A-Za-z])lab[-_ ]?0*(?P<number>\d{1,2})(?!\d)", re.IGNORECASE)
_OURS = {"solutions", "solution", "tests"}  # of a clone: not what the student has written


@dataclass(frozen=True)
class SelectedFile:
    """What was chosen, and what there is to say."""

    data: bytes | None
    submitted_at: str = ""
    notes: tuple[str, ...] = ()


def is_code(path: tuple[str, ...]) -> bool:
    """Whether a file may be a lab's exercises: exercises.py, exercises-1.py, and at the top lab-02.py."""
    name = path[-1] if path else ""
    return bool(CODE.fullmatch(name) or (len(path) == 1 and name.lower().endswith(".py") and _LAB.match(name)))


def max_bytes(path: tuple[str, ...]) -> int:
    """How much of a file is read at most; 0 if none of it is."""
    name = path[-1].lower()
    if name.endswith(".py"):
        return CODE_BYTES if CODE.fullmatch(name) or len(path) <= 2 else 0
    if name == METADATA:
        return 64 * MIB if len(path) <= 2 else 0
    return NOTEBOOK_BYTES if name.endswith(".ipynb") else 1000 if name == "timestamp.txt" else 0


def label(handin: Handin, path: tuple[str, ...]) -> str:
    """The file as the instructor sees it."""
    return printable("/".join((handin.name, *(() if handin.alone else path))), 160)


def select_file(handins: Sequence[Handin], lab: Lab, only: bool) -> SelectedFile:
    """The exercises for `lab`; `only`, if no other lab is graded."""
    notes = [
        f"{label(one, entry.path)} {entry.why}."
        for one in handins
        for entry in one.entries
        if entry.why and (not entry.path or archive_stem(entry.path[-1]))
    ]
    candidates = [
        (_rank(one, entry, lab, place), one, entry)
        for one in handins
        for entry in one.entries
        if is_code(entry.path) and (place := _place(one, entry.path, lab, only))
    ]
    candidates.sort(key=lambda candidate: candidate[0])
    elsewhere = {entry.path[:-1] for rank, _, entry in candidates if rank[4] == _ELSEWHERE}
    if len(elsewhere) > 1 and len(elsewhere) == len({entry.path[:-1] for _, _, entry in candidates}):
        names = ", ".join(label(one, entry.path) for _, one, entry in candidates[:3])
        return SelectedFile(
            None, notes=_few([*notes, f"Several files could be the one for lab {lab.number}: {names}."])
        )
    read: list[tuple[bool, bytes, Handin, Entry]] = []
    for _, one, entry in candidates[:MOST_READ]:
        try:
            data = entry.read(CODE_BYTES)
            read.append((_is_stub(data, lab), data, one, entry))
        except RefusedError as error:
            notes.append(f"{label(one, entry.path)} {error}.")
    if len(candidates) > MOST_READ:
        notes.append(f"{len(candidates) - MOST_READ} more files of that name were not looked at.")
    if not read:
        return SelectedFile(None, notes=_few([*notes, *_nothing(handins, lab, bool(candidates), only)]))
    stub, data, one, entry = min(read, key=lambda candidate: candidate[0])
    if stub:
        notes.append(f"{label(one, entry.path)} is as it was given: nothing is written in it.")
    others = {label(o, e.path): d for untouched, d, o, e in read if not untouched and d != data}
    notes += [f"{other} was handed in too and is not graded: {label(one, entry.path)} is." for other in others]
    when, trouble = _when(one, entry)
    return SelectedFile(data, when, _few([*notes, *trouble]))


def select_notebook(handins: Sequence[Handin], lab: Lab, only: bool) -> bytes | None:
    """The lab's notebook if one was handed in and differs from ours: kept as a record, never run."""
    for one in handins:
        for entry in one.entries:
            name = entry.path[-1].lower() if entry.path else ""
            fits = name == "notebook.ipynb" or (name.endswith(".ipynb") and _LAB.match(name))
            if fits and _place(one, entry.path, lab, only):
                try:
                    data = entry.read(NOTEBOOK_BYTES)
                except RefusedError:
                    continue
                if data != _bytes(lab.notebook):
                    return data
    return None


_WORK, _LAB_FOLDER, _CODE_FOLDER, _TOP, _ELSEWHERE = range(1, 6)


def _place(handin: Handin, path: tuple[str, ...], lab: Lab, only: bool) -> int:
    """How good a place this is for the lab's file, 1 the best; 0 if it is another lab's, or ours."""
    folders = path[:-1]
    if any(folder.lower() in _OURS for folder in folders):
        return 0
    if (_number(handin, path) or (lab.number if only else "")) != lab.number:
        return 0
    if not folders:
        return _TOP
    if not _LAB.search(folders[-1]):
        return _ELSEWHERE
    above = folders[-2].lower() if len(folders) > 1 else ""
    return {"work": _WORK, "code": _CODE_FOLDER}.get(above, _LAB_FOLDER)


def _number(handin: Handin, path: tuple[str, ...]) -> str:
    """Of the lab that the place says it is for, the innermost first; empty if it names none."""
    named = [match["number"].zfill(2) for part in path if (match := _LAB.search(part))]
    return named[-1] if named else handin.lab


def _rank(
    handin: Handin, entry: Entry, lab: Lab, place: int
) -> tuple[int, int, bool, float, int, int, bool, float, int]:
    """What comes first is the lowest."""
    newest = max((one.modified for one in handin.entries if is_code(one.path)), default=0.0)
    name = entry.path[-1].lower()
    match = CODE.fullmatch(name)
    number = int(match["number"] or 0) if match else 0
    other = int(bool(handin.lab) and handin.lab != lab.number)
    return (
        other, -handin.serial, not handin.exact, -newest,
        place, len(entry.path), name != "exercises.py", -entry.modified, -number,
    )  # fmt: skip


def _nothing(handins: Sequence[Handin], lab: Lab, candidates: bool, only: bool) -> list[str]:
    """Why there is no file. Nothing if another lab's is all there is: that one is no oddity."""
    if candidates:
        return []
    notes = [
        f"{label(one, entry.path)} {entry.why}."
        for one in handins
        for entry in one.entries
        if entry.why and entry.path and not archive_stem(entry.path[-1])
    ]
    there = [(one, entry.path) for one in handins for entry in one.entries if entry.path and not entry.why]
    files = [(one, path) for one, path in there if only or _number(one, path) in ("", lab.number)]
    if not files and (there or not handins):
        return notes[:3]
    places = ", ".join(dict.fromkeys(printable(one.name) for one in handins))
    some = sorted((label(*file) for file in files), key=lambda name: not name.endswith(".py"))
    holds = f"; there is {', '.join(some[:3])}{' and more' if len(some) > 3 else ''}" if some else ""
    nameless = any(is_code(path) and not _number(one, path) for one, path in files) and not only
    hint = f" With several labs, a file's place must name its lab, as lab-{lab.number}/exercises.py does."
    text = f"No exercises.py for lab {lab.number} was found in {places}{holds}."
    return [*notes[:3], text + (hint if nameless else "")]


def _when(handin: Handin, entry: Entry) -> tuple[str, list[str]]:
    """When the file was handed in, and what is odd about that."""
    # nbgrader's own stands in the assignment's folder; one further down is the student's word.
    place = (*entry.path[:-1][:1], "timestamp.txt")
    beside = next((one for one in handin.entries if one.path == place), None)
    if handin.submitted_at or not (handin.timestamps and beside):
        return handin.submitted_at or (iso_utc(entry.modified) if entry.modified > 0 else ""), []
    try:
        text = beside.read(1000).decode().strip()
        has_zone = not re.fullmatch(r"[\d-]+[ T][\d:.]+", text)
        return parse_time(text if has_zone else f"{text} UTC").isoformat(), []
    except (RefusedError, UnicodeDecodeError, UserError):
        told = f"{label(handin, beside.path)} is not understood: the time of the file itself is taken."
        return iso_utc(entry.modified), [told]


def _few(notes: Sequence[str]) -> tuple[str, ...]:
    few = tuple(dict.fromkeys(notes))
    return few if len(few) <= MOST_NOTES else (*few[:MOST_NOTES], f"There are {len(few) - MOST_NOTES} notes more.")


def _is_stub(data: bytes, lab: Lab) -> bool:
    return data.replace(b"\r\n", b"\n").strip() == _bytes(lab.stubs).strip()


@lru_cache(maxsize=64)
def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
