"""Submission sources: folders or one archive in which many students' submissions lie side by side."""

import contextlib
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Self

from rankzero.curriculum import all_labs
from rankzero.grading.intake.archives import Archive, archive_stem
from rankzero.grading.intake.gradescope_metadata import METADATA
from rankzero.grading.intake.roster import Roster
from rankzero.grading.intake.system_names import system_names
from rankzero.grading.intake.untrusted_files import (
    Entry,
    RefusedError,
    file_entry,
    is_skipped,
    list_folder,
    list_names,
    refused,
)

# exercises.py, and the names that browsers, course systems and file managers give to a further copy. ILIAS marks late
# files, in its language.
CODE = re.compile(
    r"(?P<late>(?:late submission|versp(?:ä|ae)tete abgabe) - )?"
    r"(?:copy of )?exercises"
    r"(?:[ _-]*\(?(?:another )?(?:copy|kopie|copie|copia)\)?|[ _-]?\(?(?P<number>\d{1,3})\)?){0,4}\.py",
    re.IGNORECASE,
)
LAB = re.compile(r"lab[-_ ]?0*(?P<number>\d{1,2})", re.IGNORECASE)
SUBMISSION_FOLDERS = ("submitted", "Submitted files", "Submissions", "Abgaben")  # of nbgrader, Teams, ILIAS
OTHER_FOLDERS = {"Working files"}  # beside them
NBGRADER_FOLDERS = {"submitted", "source", "release", "autograded", "feedback"}
IGNORED_FILES = {"Thumbs.db", "desktop.ini", "Icon\r"}
MAX_ARCHIVES = 3  # of one student


class SubmissionSource(Protocol):
    """The folders and files that lie side by side in one place."""

    name: str
    is_archive: bool
    folders: list[str]
    files: dict[str, Entry]  # with links and devices as refused entries

    def folder(self, name: str) -> list[Entry]:
        """Returns all files of one of the folders, by path from there. RefusedError if it cannot be listed."""

    def below(self, name: str) -> "SubmissionSource":
        """Returns one of the folders as a source."""

    def archive(self, path: tuple[str, ...], times: int = 1) -> Archive:
        """Returns the archive at `path`. RefusedError if it lies in an archive."""


class FolderSource:
    """A folder on the instructor's disk."""

    is_archive = False

    def __init__(self, root: Path, path: tuple[str, ...] = ()) -> None:
        self.root, self.path = root, path
        self.name = path[-1] if path else root.name
        self.folders: list[str] = []
        self.files: dict[str, Entry] = {}
        for name, status in list_names(root, path).items():
            if is_skipped(name) or name in IGNORED_FILES:
                continue
            if stat.S_ISDIR(status.st_mode):
                self.folders.append(name)
            else:
                self.files[name] = file_entry(root, path, (name,), status)

    def folder(self, name: str) -> list[Entry]:
        """As `SubmissionSource.folder`."""
        return list_folder(self.root, (*self.path, name))

    def below(self, name: str) -> Self:
        """As `SubmissionSource.below`."""
        return type(self)(self.root, (*self.path, name))

    def archive(self, path: tuple[str, ...], times: int = 1) -> Archive:
        """As `SubmissionSource.archive`."""
        return Archive(self.root, self.path + path, times)


class ArchiveSource:
    """The content of one archive with all submissions."""

    is_archive = True

    def __init__(self, name: str, entries: list[Entry]) -> None:
        self.name = name
        self.inner: dict[str, list[Entry]] = {}
        self.files: dict[str, Entry] = {}
        for entry in entries:
            if len(entry.path) == 1 and entry.path[0] not in IGNORED_FILES:
                self.files[entry.path[0]] = entry
            elif len(entry.path) > 1:
                self.inner.setdefault(entry.path[0], []).append(replace(entry, path=entry.path[1:]))
        self.folders = sorted(self.inner)

    def folder(self, name: str) -> list[Entry]:
        """As `SubmissionSource.folder`."""
        return self.inner[name]

    def below(self, name: str) -> "ArchiveSource":
        """As `SubmissionSource.below`."""
        return ArchiveSource(name, self.inner[name])

    def archive(self, path: tuple[str, ...], times: int = 1) -> Archive:
        """Raises RefusedError: no archive inside an archive is opened."""
        raise RefusedError("is an archive inside an archive, which is not opened: unpack the outer archive first")


def expand_archives(
    source: SubmissionSource, folder: str, entries: list[Entry], max_bytes: Callable[[tuple[str, ...]], int]
) -> list[Entry]:
    """Returns a student's files, and the files of up to three archives that lie at most one folder deep."""
    files: list[Entry] = []
    opened = 0
    for entry in entries:
        if not archive_stem(entry.path[-1]) or len(entry.path) > 2:
            files.append(entry)
        elif opened == MAX_ARCHIVES:
            files.append(refused(entry.path, "is the fourth archive of one student, and only three are opened"))
        else:
            opened += 1
            files += read_archive(source, (folder, *entry.path), entry, max_bytes, entry.path)
    return files


def read_archive(
    source: SubmissionSource,
    path: tuple[str, ...],
    entry: Entry,
    max_bytes: Callable[[tuple[str, ...]], int],
    label: tuple[str, ...] = (),
) -> list[Entry]:
    """Returns the files of one student's archive at `path`, which `label` names to the instructor.

    Every file has the time of the archive: the times inside are the student's claim, and so is a timestamp.txt. They
    only decide between several files of the archive.
    """
    try:
        with contextlib.closing(source.archive(path)) as archive:
            members = archive.entries(max_bytes)
    except RefusedError as error:
        return [refused(label, str(error), entry.modified)]
    return [
        replace(member, path=(*label[:-1], *member.path), modified=entry.modified, claimed=member.modified)
        for member in members
        if member.path[-1:] != ("timestamp.txt",)
    ]


def is_single_submission(source: SubmissionSource) -> bool:
    """Returns whether the source is one student's folder, not a folder of many students."""
    return bool(own_work(source))


def own_work(source: SubmissionSource) -> str:
    """Returns the file or folder that makes the source one student's folder, or ''."""
    inside = [name for name in source.files if CODE.fullmatch(name)]
    inside += [name for name in source.folders if name.lower() in ("work", "code")]
    labs = (name for name in source.folders if LAB.fullmatch(name))
    inside += [f"{lab}/{name}" for lab in labs for name in source.below(lab).files if CODE.fullmatch(name)]
    return next(iter(inside), "")


def unwrap(source: SubmissionSource, roster: Roster | None) -> SubmissionSource:
    """Returns the source inside folders that only wrap it: nbgrader's `submitted`, Gradescope's export."""
    for _ in range(4):
        inside = next((name for name in SUBMISSION_FOLDERS if name in source.folders), "")
        if inside and not _has_other_submissions(source, roster, inside):
            source = source.below(inside)
            if inside == "submitted":
                break
            continue
        if len(source.folders) != 1 or _submission_files(source):
            break
        name = source.folders[0]
        inner = source.below(name)
        holds_many = len(inner.folders) + _submission_files(inner) > 1
        is_export = METADATA in inner.files or name.endswith(("submissions", "_export"))
        is_export |= bool(system_names(inner.folders)) or any(name in SUBMISSION_FOLDERS for name in inner.folders)
        is_student = is_single_submission(inner) or (roster and roster.find(name)) or LAB.fullmatch(name)
        if is_student or not (holds_many or is_export) or system_names([name]):
            break
        source = inner
    return source


def _submission_files(source: SubmissionSource) -> int:
    return sum(name.endswith(".py") or bool(archive_stem(name)) for name in source.files)


def _has_other_submissions(source: SubmissionSource, roster: Roster | None, inside: str) -> bool:
    """Returns whether submissions lie beside `inside`; then `inside` is a student, not a course system's folder."""
    beside = [name for name in source.folders if name not in {inside, *NBGRADER_FOLDERS, *OTHER_FOLDERS}]
    return any(archive_stem(name) for name in source.files) or any(
        (roster and roster.find(name)) or is_single_submission(source.below(name)) for name in beside
    )


def lab_sources(source: SubmissionSource, slugs: Mapping[str, str]) -> dict[str, str]:
    """Returns the lab's number of each folder and archive, if all are named for labs (lab-02/, lab-04.zip), or {}."""
    stems = {name: name for name in source.folders}
    stems |= {name: stem for name in source.files if (stem := archive_stem(name))}
    numbers = {name: slugs.get(stem) or _lab_number(stem) for name, stem in stems.items()}
    return numbers if all(numbers.values()) else {}


def is_lab_name(name: str) -> bool:
    """Returns whether a folder or archive has a lab's name."""
    return bool(_lab_number(name)) or name in {lab.slug for lab in all_labs()}


def _lab_number(name: str) -> str:
    match = LAB.fullmatch(name)
    return match["number"].zfill(2) if match else ""
