"""Layouts of course systems: the submissions that Moodle, Canvas, Gradescope, GitHub or nbgrader put in one folder."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.grading.grade import Student
from rankzero.grading.intake.archives import OTHER_KINDS, archive_stem
from rankzero.grading.intake.gradescope_metadata import METADATA, metadata_value, read_metadata
from rankzero.grading.intake.match_student import StudentMatcher
from rankzero.grading.intake.roster import Roster, split_name
from rankzero.grading.intake.safe_names import printable
from rankzero.grading.intake.submission_source import SubmissionSource, expand_archives, is_lab_name, read_archive
from rankzero.grading.intake.system_names import SystemName, sakai_time, system_names
from rankzero.grading.intake.timestamps import parse_time
from rankzero.grading.intake.untrusted_files import Entry, RefusedError, refused

NAMED_LIKE_A_LAB = (
    "is named like a lab and lies beside students' folders, so nothing in it is graded: move the students' folders out "
    "of it, or grade it by a run of its own"
)
OF_STUDENTS = "holds folders of your students, so nothing in it is graded: move these folders out of it"
DOWNLOAD_S = 60.0  # between the first and the last time of files that one download or one copy wrote
_TEAM = re.compile(r"\w+[ _-]\d+")  # the name of a team's folder in ILIAS, in its language
_EXERCISES = re.compile(
    r"(?:[-_ ]+|^)exercises?(?:[-_ ]*\(?\d+\)?)*$|^exercises?[-_ ]+", re.IGNORECASE
)  # in alice_exercises
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
    late: str = ""  # the system that marks it as late without a time
    has_time: bool = True  # False if the files' times are those of a download
    one_time: str = ""  # why the files' times may be those of a download or a copy
    timestamps: bool = False  # whether a timestamp.txt beside a file is nbgrader's, not the student's
    is_file: bool = False  # a single file: its name is the hand-in's
    candidates: tuple[Student, ...] = ()  # students of the roster to whom the name may belong, if it identifies none
    anonymous: bool = False  # in blind marking
    another_name: bool = False  # its number is its student's and its name is not: it may be a group's
    packed: bool = False  # in an archive of the class

    @property
    def garbled(self) -> bool:
        """Returns whether its archive does not say how the letters of a name in it are written."""
        return any(entry.garbled for entry in self.entries)


def read_handins(
    source: SubmissionSource,
    labs: Sequence[Lab],
    roster: Roster | None,
    max_bytes: Callable[[tuple[str, ...]], int],
    lab: str = "",
) -> list[Handin]:
    """Returns every hand-in of the source. `lab` is the number of their lab, if all of them are for one lab.

    `max_bytes` returns the most bytes that are read of a path. UserError where Gradescope's metadata cannot be read.
    """
    handins = [replace(handin, packed=source.is_archive) for handin in _handins(source, labs, roster, max_bytes, lab)]
    return _with_one_time(handins, source)


def _handins(
    source: SubmissionSource,
    labs: Sequence[Lab],
    roster: Roster | None,
    max_bytes: Callable[[tuple[str, ...]], int],
    lab: str,
) -> Iterator[Handin]:
    systems = system_names(source.folders, source.files)
    matcher = StudentMatcher(source.folders, [_student_part(name, systems) for name in source.files], labs, roster)
    metadata = read_metadata(source.files[METADATA]) if METADATA in source.files else {}
    for name in source.folders:
        values = metadata.get(name)
        handin = _gradescope_handin(name, values, matcher) if values else _match(name, matcher, name)
        if not lab and _is_lab(name, matcher):
            yield _unread(name, matcher, NAMED_LIKE_A_LAB)
            continue
        try:
            entries = expand_archives(source, name, source.folder(name), max_bytes)
        except RefusedError as error:
            entries = [refused((), str(error))]
        if inside := _students_inside(handin, entries, matcher):
            yield replace(_unread(name, matcher, OF_STUDENTS), candidates=inside)
            continue
        handin = _with_team(handin, entries, matcher)
        submitted_at = handin.submitted_at or _sakai_time(name, entries, matcher)
        yield replace(
            handin,
            entries=entries,
            lab=handin.lab or lab,
            timestamps=source.name == "submitted",
            submitted_at=submitted_at,
        )
    for name, entry in source.files.items():
        if name == METADATA or not _is_handin(name, entry, matcher):
            continue
        handin = _match(name, matcher, _student_part(name, systems))
        if not lab and _is_lab(archive_stem(name), matcher):
            handin = _unread(name, matcher, NAMED_LIKE_A_LAB)
        elif archive_stem(name):
            handin = replace(handin, entries=read_archive(source, (name,), entry, max_bytes))
        else:
            path = (_original_file_name(name, entry, matcher),)
            handin = replace(handin, entries=[replace(entry, path=path)], is_file=True)
        yield replace(handin, lab=handin.lab or lab)


def _with_one_time(handins: list[Handin], source: SubmissionSource) -> list[Handin]:
    """Returns the hand-ins, with a remark on each if the files of all of them have one time, as after a download.

    Nobody's time of hand-in is known then, except perhaps in a plain folder, where it may be the right one.
    """
    systems = system_names(source.folders, source.files)
    if 2 * len(systems) < len(handins):  # a student's own name for a file may look like a system's
        systems = {}
    if any(system.submitted_at or not system.has_time for system in systems.values()):
        # A file that a person has renamed has lost the time in its name.
        reason = f"the name of {{}} has none, and times of files in {printable(source.name)} are those of the download"
        handins = [
            handin
            if handin.submitted_at or handin.name in systems
            else replace(handin, has_time=False, one_time=reason.format(printable(handin.name)))
            for handin in handins
        ]
    untimed = [handin for handin in handins if handin.has_time and not handin.submitted_at and not handin.timestamps]
    times = [entry.modified for handin in untimed for entry in handin.entries if entry.modified > 0]
    if len(untimed) < 2 or not times or max(times) - min(times) > DOWNLOAD_S:
        return handins
    moment = f"{datetime.fromtimestamp(min(times)):%Y-%m-%d %H:%M}"
    reason = f"all files of {printable(source.name)} have one time, {moment}"
    plain = not (source.is_archive or systems)
    return [replace(handin, one_time=reason, has_time=plain) if handin in untimed else handin for handin in handins]


def _students_inside(handin: Handin, entries: Sequence[Entry], matcher: StudentMatcher) -> tuple[Student, ...]:
    """Returns the students whose folders lie in a folder that is no student's, as that of a section."""
    roster = matcher.roster
    if not roster or handin.name in matcher.systems or roster.find(handin.name) or _TEAM.fullmatch(handin.name):
        return ()
    names = dict.fromkeys(entry.path[0] for entry in entries if len(entry.path) > 1)
    return tuple(dict.fromkeys(student for name in names if (student := roster.find(name))))


def _with_team(handin: Handin, entries: Sequence[Entry], matcher: StudentMatcher) -> Handin:
    """Returns the hand-in, of all whose folders ILIAS has put into a team's folder."""
    name = handin.name
    inner = {entry.path[0] for entry in entries if len(entry.path) > 1}
    if not _TEAM.fullmatch(name) or not inner or len(ilias := system_names(inner)) < len(inner):
        return handin
    if any(system.system != "ILIAS" for system in ilias.values()):
        return handin
    members = StudentMatcher(sorted(inner), (), matcher.labs, matcher.roster)
    known = handin.students if matcher.known(name) else ()
    students = (*known, *(student for folder in sorted(inner) for student in members.match(folder).students))
    return replace(handin, students=tuple(dict.fromkeys(students)), candidates=())


def _sakai_time(name: str, entries: Sequence[Entry], matcher: StudentMatcher) -> str:
    """Returns the time in Sakai's own timestamp.txt, which lies beside the folder of the student's files."""
    system = matcher.systems.get(name)
    stamp = next((entry for entry in entries if entry.path == ("timestamp.txt",)), None)
    if not (system and system.system == "Sakai" and stamp):
        return ""
    try:
        return sakai_time(stamp.read(1000).decode())
    except (RefusedError, UnicodeDecodeError):
        return ""


def _is_lab(name: str, matcher: StudentMatcher) -> bool:
    return is_lab_name(name) and not matcher.find([name])


def _unread(name: str, matcher: StudentMatcher, why: str) -> Handin:
    """Returns a folder or archive that is no student's, and of which nothing is read."""
    return Handin(name, (Student(matcher.unknown_id(name, name)),), [refused((), why)])


def _match(name: str, matcher: StudentMatcher, student_part: str) -> Handin:
    match = matcher.match(student_part)
    in_roster = matcher.roster and all(student.student_id in matcher.roster.by_id for student in match.students)
    candidates = () if in_roster else matcher.candidates(student_part)
    handin = Handin(name, match.students, [], match.lab, match.exact, candidates=candidates)
    if not (system := match.system):
        return handin
    return replace(
        handin,
        serial=system.serial,
        submitted_at=system.submitted_at,
        late=system.system if system.late else "",
        has_time=system.has_time,
        anonymous=bool(system.anonymous and not in_roster),
        another_name=len(match.students) == 1 and matcher.names_another(system, match.students),
    )


def _student_part(name: str, systems: Mapping[str, SystemName]) -> str:
    """Returns the part of a file's name that names its student; a name that a course system made stays whole."""
    if name in systems:
        return name
    stem = (
        archive_stem(name)
        or (OTHER_KINDS.sub("", name) if OTHER_KINDS.search(name) else "")
        or os.path.splitext(_WITHOUT_ENDING.sub("", name))[0]
    )
    return _EXERCISES.sub("", stem).strip(" -_") or stem


def _original_file_name(name: str, entry: Entry, matcher: StudentMatcher) -> str:
    """Returns the student's name for the file. alice.py counts as exercises.py, and so does a link."""
    if system := matcher.systems.get(name):
        return system.rest or name
    return "exercises.py" if name.lower().endswith(".py") or entry.why else name


def _is_handin(name: str, entry: Entry, matcher: StudentMatcher) -> bool:
    """Returns whether a file beside the folders is a submission: code, an archive, or a name that is a student's."""
    if entry.why or archive_stem(name) or _WITHOUT_ENDING.sub("", name.lower()).endswith((".py", ".ipynb")):
        return True
    return name in matcher.systems or matcher.known(_student_part(name, matcher.systems))


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
