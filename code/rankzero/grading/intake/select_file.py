"""File selection: of several files that a student handed in, the one that is graded for a lab."""

import difflib
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from rankzero.curriculum import Lab, all_labs
from rankzero.errors import UserError
from rankzero.grading.intake.archives import archive_stem
from rankzero.grading.intake.gradescope_metadata import METADATA, METADATA_BYTES
from rankzero.grading.intake.layouts import Handin
from rankzero.grading.intake.safe_names import printable
from rankzero.grading.intake.submission_source import CODE
from rankzero.grading.intake.timestamps import iso_utc, parse_time
from rankzero.grading.intake.untrusted_files import MIB, Entry, RefusedError

CODE_BYTES = MIB
NOTEBOOK_BYTES = 20 * MIB
MAX_CANDIDATES = 8  # files of one student for one lab that are read
MAX_NOTES = 6
SAME_MOMENT_S = 2.0  # times that differ by less are those of one download or copy, or of a zip archive's two seconds

_LAB = re.compile(r"(?<![A-Za-z])lab[-_ ]?0*(?P<number>\d{1,2})(?!\d)", re.IGNORECASE)
_NO_CODE = re.compile(r"\.(pyc|docx?|odt|rtf|pdf|html?|7z|rar|zip|tar|gz|xz|bz2|png|jpe?g)$", re.IGNORECASE)
_PACKED = re.compile(r"\.(7z|rar|zip|tar|gz|xz|bz2)$", re.IGNORECASE)
_DEFINITION = re.compile(rb"^def (\w+)", re.MULTILINE)
RESUME = "run the same command with --resume"
_DECIDE_LATE = "No points are taken: to take some, write a change into adjustments.csv."
# Of a clone and of Sakai, without files by the student.
_OTHERS_FOLDERS = {"solutions", "solution", "tests", "feedback attachment(s)"}
_VERSION = re.compile(r"(?:version|attempt|versuch)[-_ ]?(\d{1,4})", re.IGNORECASE)  # Teams keeps every hand-in


@dataclass(frozen=True)
class SelectedFile:
    """The content of the selected file, and notes on the selection; `data` is None if no file is usable."""

    data: bytes | None
    submitted_at: str = ""
    notes: tuple[str, ...] = ()
    one_time: str = ""  # why its time may be that of a download or a copy
    passed_over: tuple[str, ...] = ()  # SHA-256 of the other files


@dataclass(frozen=True)
class _Candidate:
    handin: Handin
    entry: Entry
    location: int

    @property
    def label(self) -> str:
        return label(self.handin, self.entry.path)

    @property
    def place(self) -> tuple[str, ...]:
        """Returns the folders above it, without those of a version."""
        return tuple(part for part in self.entry.path[:-1] if not _VERSION.fullmatch(part))

    @property
    def version(self) -> int:
        """Returns the number of its folder `Version 2`; 0 without one."""
        numbers = [int(match[1]) for part in self.entry.path[:-1] if (match := _VERSION.fullmatch(part))]
        return numbers[-1] if numbers else 0


def is_code(path: tuple[str, ...]) -> bool:
    """Returns whether a path may be a lab's exercises: exercises.py, exercises-1.py, and at the top lab-02.py."""
    name = path[-1] if path else ""
    return bool(CODE.fullmatch(name) or (len(path) == 1 and name.lower().endswith(".py") and _LAB.match(name)))


def max_bytes(path: tuple[str, ...]) -> int:
    """Returns the most bytes that are read of a file; 0 for files that are not read."""
    name = path[-1].lower()
    if name.endswith(".py"):
        return CODE_BYTES if CODE.fullmatch(name) or len(path) <= 2 else 0
    if name == METADATA:
        return METADATA_BYTES if len(path) <= 2 else 0
    return NOTEBOOK_BYTES if name.endswith(".ipynb") else 1000 if name == "timestamp.txt" else 0


def label(handin: Handin, path: tuple[str, ...]) -> str:
    """Returns the file's path as the instructor sees it."""
    return printable("/".join((handin.name, *(() if handin.is_file else path))), 160)


def select_file(
    handins: Sequence[Handin], lab: Lab, only_lab: bool, chosen: Mapping[str, Any] | None = None
) -> SelectedFile:
    """Returns the exercises for `lab`. `only_lab`: whether no other lab is graded; then paths need not name it.

    `chosen` are the recorded facts of the student's earlier files, by digest: a file that was passed over once does
    not replace the file that was graded, as long as that file is here.
    """
    notes = [
        f"{label(handin, entry.path)} {entry.why}."
        for handin in handins
        for entry in handin.entries
        if entry.why and (not entry.path or archive_stem(entry.path[-1]))
    ]
    candidates = _ranked(list(_candidates(handins, lab, only_lab)), lab)
    unclear = {candidate.place for candidate in candidates if candidate.location == _ELSEWHERE}
    if len(unclear) > 1 and len(unclear) == len({candidate.place for candidate in candidates}):
        names = ", ".join(candidate.label for candidate in candidates[:3])
        notes.append(
            f"Several files could be the submission for lab {lab.number}: {names}. Leave only one and {RESUME}."
        )
        return SelectedFile(None, notes=_few(notes))
    readable: list[tuple[_Candidate, bytes]] = []
    for candidate in candidates[:MAX_CANDIDATES]:
        try:
            readable.append((candidate, candidate.entry.read(CODE_BYTES)))
        except RefusedError as error:
            notes.append(f"{candidate.label} {error}.")
    if len(candidates) > MAX_CANDIDATES:
        notes.append(f"{len(candidates) - MAX_CANDIDATES} more files with such names were not read.")
    if not readable:
        unreadable = f"No exercises.py for lab {lab.number} can be read: ask the student for it and {RESUME}."
        notes += [unreadable] if candidates else _missing_notes(handins, lab, only_lab)
        return SelectedFile(None, notes=_few(notes))
    selected, data = min(readable, key=lambda pair: _is_stub(pair[1], lab))
    digests = {sha256(content).hexdigest(): (candidate, content) for candidate, content in readable[::-1]}
    for digest, facts in (chosen or {}).items():
        if digest in digests and sha256(data).hexdigest() in facts.get("passed_over", ()):
            selected, data = digests[digest]
            break
    if _is_stub(data, lab):
        notes.append(f"{selected.label} is as it was given: nothing is written in it.")
    notes += _foreign_notes(selected.label, data, lab)
    for candidate, other in readable:
        if other != data and _is_stub(other, lab):
            if _is_newer(candidate, selected):
                notes.append(f"{candidate.label} is newer, but nothing is written in it: {selected.label} is graded.")
        elif other != data:
            newer = ", which is newer" if _is_newer(selected, candidate) else ""
            notes.append(f"{candidate.label} was handed in too and is not graded: {selected.label} is{newer}.")
    submitted_at, time_notes = _submission_time(selected.handin, selected.entry)
    name = CODE.fullmatch(selected.entry.path[-1])
    if system := selected.handin.late or (name and name["late"] and "ILIAS"):
        time_notes.append(f"{system} marks {selected.label} as late and gives no time. {_DECIDE_LATE}")
    passed_over = tuple(sorted(digests.keys() - {sha256(data).hexdigest()}))
    one_time = "" if selected.handin.submitted_at else selected.handin.one_time
    return SelectedFile(data, submitted_at, _few([*time_notes, *notes]), one_time, passed_over)


def _foreign_notes(name: str, data: bytes, lab: Lab) -> list[str]:
    """Returns a note on a file that is empty, or has another lab's functions and none of this lab's."""
    if not data.strip():
        return [f"{name} is empty: ask the student for exercises.py."]
    functions = {other.number: _DEFINITION.findall(_read_cached(other.stubs)) for other in all_labs()}
    defined = {*_DEFINITION.findall(data)}
    if not defined or defined.intersection(functions[lab.number]):
        return []
    owners = [number for number, names in functions.items() if names and defined.issuperset(names)]
    return [f"{name} has the functions of lab {number}: ask for the file of lab {lab.number}." for number in owners[:1]]


def select_notebook(handins: Sequence[Handin], lab: Lab, only_lab: bool) -> bytes | None:
    """Returns the lab's notebook if it was handed in with changes: it is kept as a record and never run."""
    for handin in handins:
        for entry in handin.entries:
            name = entry.path[-1].lower() if entry.path else ""
            is_notebook = name == "notebook.ipynb" or (name.endswith(".ipynb") and _LAB.match(name))
            if is_notebook and _location(handin, entry.path, lab, only_lab):
                try:
                    data = entry.read(NOTEBOOK_BYTES)
                except RefusedError:
                    continue
                if data != _read_cached(lab.notebook):
                    return data
    return None


_WORK, _LAB_FOLDER, _CODE_FOLDER, _TOP, _ELSEWHERE = range(1, 6)


def _candidates(handins: Sequence[Handin], lab: Lab, only_lab: bool) -> Iterator[_Candidate]:
    for handin in handins:
        for entry in handin.entries:
            if is_code(entry.path) and (location := _location(handin, entry.path, lab, only_lab)):
                yield _Candidate(handin, entry, location)


def _location(handin: Handin, path: tuple[str, ...], lab: Lab, only_lab: bool) -> int:
    """Returns the rank of the file's location, 1 the likeliest; 0 if the file is another lab's or the curriculum's."""
    folders = path[:-1]
    if any(folder.lower() in _OTHERS_FOLDERS for folder in folders):
        return 0
    if (_lab_number(handin, path) or (lab.number if only_lab else "")) != lab.number:
        return 0
    if not folders:
        return _TOP
    if not _LAB.search(folders[-1]):
        return _ELSEWHERE
    above = folders[-2].lower() if len(folders) > 1 else ""
    return {"work": _WORK, "code": _CODE_FOLDER}.get(above, _LAB_FOLDER)


def _lab_number(handin: Handin, path: tuple[str, ...]) -> str:
    """Returns the lab that the path names, the innermost name first, or else the hand-in's lab, which may be ''."""
    numbers = [match["number"].zfill(2) for part in path if (match := _LAB.search(part))]
    return numbers[-1] if numbers else handin.lab


def _ranked(candidates: Sequence[_Candidate], lab: Lab) -> list[_Candidate]:
    """Returns the candidates, the likeliest first: of the files in one folder, the newest, whatever its name."""
    newest = {
        candidate.label: max(entry.modified for entry in candidate.handin.entries if is_code(entry.path))
        for candidate in candidates
    }
    moments = _moments([*newest.values(), *(candidate.entry.modified for candidate in candidates)])
    claims = _moments([candidate.entry.claimed for candidate in candidates])

    def rank(candidate: _Candidate) -> tuple[float, ...]:
        handin, entry = candidate.handin, candidate.entry
        match = CODE.fullmatch(entry.path[-1])
        return (
            handin.lab not in ("", lab.number), not handin.exact, -handin.serial, -moments[newest[candidate.label]],
            -candidate.version,
            candidate.location, len(entry.path), -moments[entry.modified], -claims[entry.claimed],
            entry.path[-1].lower() != "exercises.py", -int((match and match["number"]) or 0),
        )  # fmt: skip

    return sorted(candidates, key=rank)


def _is_newer(first: _Candidate, second: _Candidate) -> bool:
    """Returns whether the first file is newer than the second file. A claimed time counts within an archive only."""
    seconds = first.entry.modified - second.entry.modified
    if not seconds:
        seconds = first.entry.claimed - second.entry.claimed
    later_version = first.handin is second.handin and first.version > second.version
    return first.handin.serial > second.handin.serial or later_version or seconds > SAME_MOMENT_S


def _moments(times: Sequence[float]) -> dict[float, int]:
    """Returns a number for each time, the same for times of one copy or download, which say nothing of age."""
    moments: dict[float, int] = {}
    for before, time in itertools.pairwise([-math.inf, *sorted(times)]):
        moments[time] = moments.get(before, 0) + (time - before > SAME_MOMENT_S)
    return moments


def _missing_notes(handins: Sequence[Handin], lab: Lab, only_lab: bool) -> list[str]:
    """Returns the reasons for a missing file; nothing if the student handed in another lab's file only."""
    entries = [(handin, entry) for handin in handins for entry in handin.entries if entry.path]
    notes = [
        f"{label(handin, entry.path)} {entry.why}."
        for handin, entry in entries
        if entry.why and not archive_stem(entry.path[-1])
    ]
    empty = [handin.name for handin in handins if not handin.entries]
    notes += [f"{printable(name)} is empty: ask the student for exercises.py." for name in empty]
    usable = [(handin, entry.path) for handin, entry in entries if not entry.why]
    files = [(handin, path) for handin, path in usable if only_lab or _lab_number(handin, path) in ("", lab.number)]
    if not files and (usable or not entries):
        return notes[:3]
    names = ", ".join(dict.fromkeys(printable(handin.name) for handin in handins))
    notebooks = [label(*file) for file in files if file[1][-1].lower().endswith(".ipynb")]
    if notebooks and len(notebooks) == len(files):
        sentence = (
            f"{names} holds a notebook ({notebooks[0]}) and no exercises.py for lab {lab.number}: notebooks get no "
        )
        return [*notes[:3], f"{sentence}points, so ask the student for exercises.py."]
    labels = sorted((label(*file) for file in files), key=lambda name: not name.endswith(".py"))
    labels = [name for name in labels if name != names]
    alternatives = f"; there is {', '.join(labels[:3])}{' and more' if len(labels) > 3 else ''}" if labels else ""
    sentence = f"No exercises.py for lab {lab.number} was found in {names}{alternatives}."
    if not only_lab and any(is_code(path) and not _lab_number(handin, path) for handin, path in files):
        sentence += f" With several labs, a file's place must name its lab, as lab-{lab.number}/exercises.py does."
    elif misnamed := _misnamed(files, lab):
        handin, path = misnamed
        name = f"{handin.students[0].student_id}.py" if handin.is_file else "exercises.py"
        if handin.is_file and path[-1] != handin.name:  # the course system's beginning of the name has facts in it
            name = f"{handin.name.removesuffix(path[-1])}exercises.py"
        sentence += f" If {label(handin, path)} is the submission, rename it to {printable(name)} and {RESUME}."
    elif packed := [label(*file) for file in files if _PACKED.search(file[1][-1])]:
        sentence += f" {_unpack(files, packed[0])} and {RESUME}."
    elif elsewhere := [
        (label(*file), number) for file in files if (number := _lab_number(*file)) not in ("", lab.number)
    ]:
        sentence += (
            f" The place of {elsewhere[0][0]} names lab {elsewhere[0][1]}: grade that lab, or rename the folder."
        )
    else:
        sentence += " Ask the student for exercises.py."
    return [*notes[:3], sentence]


def _unpack(files: Sequence[tuple[Handin, tuple[str, ...]]], packed: str) -> str:
    """Returns the advice to unpack a file: in its student's folder, or into a new one if it lies beside the folders."""
    handin = files[0][0]
    if not (handin.is_file or archive_stem(handin.name)):
        return f"Unpack {packed} in its folder"
    before = "Unpack the archive of the class, then " if handin.packed else ""
    sentence = f"{before}unpack {packed} into a folder named {printable(handin.students[0].student_id)}"
    return sentence[0].upper() + sentence[1:]


def _misnamed(files: Sequence[tuple[Handin, tuple[str, ...]]], lab: Lab) -> tuple[Handin, tuple[str, ...]] | None:
    """Returns the file whose name is most like exercises.py, or else the only .py file; None if there is none.

    Files that are no text, and files whose place names another lab, do not count.
    """
    files = [file for file in files if not _NO_CODE.search(file[1][-1]) and _lab_number(*file) in ("", lab.number)]

    def likeness(file: tuple[Handin, tuple[str, ...]]) -> float:
        return difflib.SequenceMatcher(None, file[1][-1].lower().partition(".")[0], "exercises").ratio()

    code = [file for file in files if ".py" in file[1][-1].lower()]
    alike = max(files, key=likeness, default=None)
    return alike if alike and likeness(alike) > 0.8 else code[0] if len(code) == 1 else None


def _submission_time(handin: Handin, entry: Entry) -> tuple[str, list[str]]:
    """Returns when the file was handed in, and notes on that time."""
    # nbgrader writes timestamp.txt into the assignment's folder; a timestamp.txt below it is the student's claim.
    path = (*entry.path[:-1][:1], "timestamp.txt")
    timestamp = next((other for other in handin.entries if other.path == path), None)
    if handin.submitted_at or not (handin.timestamps and timestamp):
        own_time = iso_utc(entry.modified) if handin.has_time and entry.modified > 0 else ""
        return handin.submitted_at or own_time, []
    try:
        text = timestamp.read(1000).decode().strip()
        has_zone = not re.fullmatch(r"[\d-]+[ T][\d:.]+", text)
        return parse_time(text if has_zone else f"{text} UTC").isoformat(), []
    except (RefusedError, UnicodeDecodeError, UserError):
        note = f"{label(handin, timestamp.path)} is not understood: the time of the file itself is used."
        return iso_utc(entry.modified), [note]


def _few(notes: Sequence[str]) -> tuple[str, ...]:
    unique = tuple(dict.fromkeys(notes))
    if len(unique) <= MAX_NOTES:
        return unique
    return (*unique[:MAX_NOTES], f"There are {len(unique) - MAX_NOTES} more notes.")


def _is_stub(data: bytes, lab: Lab) -> bool:
    return data.replace(b"\r\n", b"\n").strip() == _read_cached(lab.stubs).strip()


@lru_cache(maxsize=64)
def _read_cached(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
