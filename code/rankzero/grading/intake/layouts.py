"""Layouts of course systems: the submissions that Moodle, Canvas, Gradescope, GitHub or nbgrader put in one folder."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.grading.grade import Student
from rankzero.grading.intake.archives import archive_stem
from rankzero.grading.intake.gradescope_metadata import METADATA, metadata_value, read_metadata
from rankzero.grading.intake.match_student import StudentMatcher, system_name
from rankzero.grading.intake.roster import Roster, split_name
from rankzero.grading.intake.submission_source import SubmissionSource, expand_archives, is_lab_name, read_archive
from rankzero.grading.intake.timestamps import parse_time
from rankzero.grading.intake.untrusted_files import Entry, RefusedError, refused

NAMED_LIKE_A_LAB = (
    "is named like a lab and lies beside students' folders, so nothing in it is graded: move the students' folders out "
    "of it, or grade it by a run of its own"
)
_WITHOUT_ENDING = re.compile(r"(?<=\.py)\.\w+$", re.IGNORECASE)  # exercises.py.txt, as some browsers save a file


@dataclass(frozen=True)
class Handin:
    """The files that one student, or a group, handed in under one name."""

    name: str  # of the folder, archive or file, as found
    students: tuple[Student, ...]
    entries: list[Entry]
    lab: str = ""  # the lab of an exercises.py at the top, if the name or the folder above says so
    exact: bool = True  # whether the name is the student's id, letter by letter
    serial: int = 0  # higher is newer, in systems that number the attachments
    submitted_at: str = ""  # in systems that record the time
    timestamps: bool = False  # whether a timestamp.txt beside a file is nbgrader's, not the student's
    is_file: bool = False  # a single file: its name is the hand-in's
    candidates: tuple[Student, ...] = ()  # students of the roster to whom the name may belong, if it identifies none


def read_handins(
    source: SubmissionSource,
    labs: Sequence[Lab],
    roster: Roster | None,
    max_bytes: Callable[[tuple[str, ...]], int],
    lab: str = "",
) -> Iterator[Handin]:
    """Yields every hand-in of the source. `lab` is the number of their lab, if all of them are for one lab.

    `max_bytes` returns the most bytes that are read of a path. UserError where Gradescope's metadata cannot be read.
    """
    matcher = StudentMatcher([*source.folders, *(_student_part(name) for name in source.files)], labs, roster)
    metadata = read_metadata(source.files[METADATA]) if METADATA in source.files else {}
    for name in source.folders:
        values = metadata.get(name)
        handin = _gradescope_handin(name, values, matcher) if values else _match(name, matcher, name)
        if not lab and _is_lab(name, matcher):
            yield _lab_handin(name, matcher)
            continue
        try:
            entries = expand_archives(source, name, source.folder(name), max_bytes)
        except RefusedError as error:
            entries = [refused((), str(error))]
        yield replace(handin, entries=entries, lab=handin.lab or lab, timestamps=source.name == "submitted")
    for name, entry in source.files.items():
        if name == METADATA or not _is_handin(name, entry, matcher):
            continue
        handin = _match(name, matcher, _student_part(name))
        if not lab and _is_lab(archive_stem(name), matcher):
            handin = _lab_handin(name, matcher)
        elif archive_stem(name):
            handin = replace(handin, entries=read_archive(source, (name,), entry, max_bytes))
        else:
            path = (_original_file_name(name, entry),)
            handin = replace(handin, entries=[replace(entry, path=path)], is_file=True)
        yield replace(handin, lab=handin.lab or lab)


def _is_lab(name: str, matcher: StudentMatcher) -> bool:
    return is_lab_name(name) and not matcher.find([name])


def _lab_handin(name: str, matcher: StudentMatcher) -> Handin:
    """Returns a folder or archive of a lab that lies beside students' folders: nothing in it is read."""
    return Handin(name, (Student(matcher.unknown_id(name, name)),), [refused((), NAMED_LIKE_A_LAB)])


def _match(name: str, matcher: StudentMatcher, student_part: str) -> Handin:
    match = matcher.match(student_part)
    in_roster = matcher.roster and match.student.student_id in matcher.roster.by_id
    candidates = () if in_roster else matcher.candidates(student_part)
    return Handin(name, (match.student,), [], match.lab, match.exact, match.serial, candidates=candidates)


def _student_part(name: str) -> str:
    """Returns the part of a file's name that names its student; a name that Moodle or Canvas made stays whole."""
    if system_name(name):
        return name
    stem = archive_stem(name) or os.path.splitext(_WITHOUT_ENDING.sub("", name))[0]
    return re.sub(r"[-_ ]exercises?$", "", stem, flags=re.IGNORECASE)


def _original_file_name(name: str, entry: Entry) -> str:
    """Returns the student's name for the file. alice.py counts as exercises.py, and so does a link."""
    if system := system_name(name):
        return system["rest"] or name
    return "exercises.py" if name.lower().endswith(".py") or entry.why else name


def _is_handin(name: str, entry: Entry, matcher: StudentMatcher) -> bool:
    """Returns whether a file beside the folders is a submission: code, an archive, or a name that is a student's."""
    if entry.why or archive_stem(name) or _WITHOUT_ENDING.sub("", name.lower()).endswith((".py", ".ipynb")):
        return True
    return bool(system_name(name) or matcher.find([_student_part(name)]))


def _gradescope_handin(name: str, values: Any, matcher: StudentMatcher) -> Handin:
    students = []
    submitters = metadata_value(values, "submitters")
    for submitter in submitters if isinstance(submitters, list) else []:
        student_id, email, full_name = (
            str(metadata_value(submitter, key) or "").strip() for key in ("sid", "email", "name")
        )
        first, last = split_name(full_name)
        unknown = Student(matcher.unknown_id(student_id or email or full_name, name), last, first, email)
        # Id and email identify the student together; the name is used only where neither of them is in the roster.
        identified = matcher.find([student_id]) or matcher.find([email])
        students.append(matcher.find([student_id, email] if identified else [full_name]) or unknown)
    try:
        submitted_at = parse_time(str(metadata_value(values, "created_at") or "")).isoformat()
    except UserError:
        submitted_at = ""
    group = tuple(dict.fromkeys(students)) or (Student(matcher.unknown_id("", name)),)
    return Handin(name, group, [], submitted_at=submitted_at)
