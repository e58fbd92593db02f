"""A place that holds many students' submissions, side by side: a folder, or one archive of all."""

import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Self

from rankzero.grading.intake.archives import Archive, archive_stem
from rankzero.grading.intake.roster import Roster
from rankzero.grading.intake.untrusted_files import (
    Entry,
    RefusedError,
    file_entry,
    is_skipped,
    list_folder,
    list_names,
    refused,
)

METADATA = "submission_metadata.yml"  # Gradescope's
CODE = re.compile(r"exercises(?:[ _-]?\(?(?P<number>\d{1,3})\)?)?\.py", re.IGNORECASE)
LAB = re.compile(r"lab[-_ ]?0*(?P<number>\d{1,2})", re.IGNORECASE)
NBGRADER = {"submitted", "source", "release", "autograded", "feedback"}  # what stands in a course of nbgrader's
JUNK = {"Thumbs.db", "desktop.ini", "Icon\r"}


class SubmissionSource(Protocol):
    """What stands side by side in one place."""

    name: str
    folders: list[str]
    files: dict[str, Entry]  # links, devices and the like among them, refused

    def folder(self, name: str) -> list[Entry]:
        """All files of one of the folders, by path from there. RefusedError if it cannot be listed."""

    def below(self, name: str) -> "SubmissionSource":
        """One of the folders as a shelf of its own."""

    def archive(self, path: tuple[str, ...], times: int = 1) -> Archive:
        """The archive that lies at that path. RefusedError if it lies in an archive."""


class FolderSource:
    """A folder of the instructor's."""

    def __init__(self, root: Path, place: tuple[str, ...] = ()) -> None:
        self.root, self.place = root, place
        self.name = place[-1] if place else root.name
        self.folders: list[str] = []
        self.files: dict[str, Entry] = {}
        for name, status in list_names(root, place).items():
            if is_skipped(name) or name in JUNK:
                continue
            if stat.S_ISDIR(status.st_mode):
                self.folders.append(name)
            else:
                self.files[name] = file_entry(root, place, (name,), status)

    def folder(self, name: str) -> list[Entry]:
        """All files of one of the folders."""
        return list_folder(self.root, (*self.place, name))

    def below(self, name: str) -> Self:
        """One of the folders."""
        return type(self)(self.root, (*self.place, name))

    def archive(self, path: tuple[str, ...], times: int = 1) -> Archive:
        """One of the archives."""
        return Archive(self.root, self.place + path, times)


class ArchiveSource:
    """What an archive of all submissions holds."""

    def __init__(self, name: str, entries: list[Entry]) -> None:
        self.name = name
        self.inner: dict[str, list[Entry]] = {}
        self.files: dict[str, Entry] = {}
        for entry in entries:
            if len(entry.path) == 1 and entry.path[0] not in JUNK:
                self.files[entry.path[0]] = entry
            elif len(entry.path) > 1:
                self.inner.setdefault(entry.path[0], []).append(replace(entry, path=entry.path[1:]))
        self.folders = sorted(self.inner)

    def folder(self, name: str) -> list[Entry]:
        """All files of one of the folders."""
        return self.inner[name]

    def below(self, name: str) -> "ArchiveSource":
        """One of the folders."""
        return ArchiveSource(name, self.inner[name])

    def archive(self, path: tuple[str, ...], times: int = 1) -> Archive:
        """None is opened."""
        raise RefusedError("is an archive inside an archive, which is not opened: unpack the outer one first")


def expand_archives(
    shelf: SubmissionSource, folder: str, entries: list[Entry], max_bytes: Callable[[tuple[str, ...]], int]
) -> list[Entry]:
    """A student's files, with those of the archives among them: at most three, and not deeper than one folder."""
    found: list[Entry] = []
    opened = 0
    for entry in entries:
        if not archive_stem(entry.path[-1]) or len(entry.path) > 2:
            found.append(entry)
        elif opened == 3:
            found.append(refused(entry.path, "is the fourth archive of one student, and three are opened"))
        else:
            opened += 1
            found += read_archive(shelf, (folder, *entry.path), entry, max_bytes, entry.path)
    return found


def read_archive(
    shelf: SubmissionSource,
    place: tuple[str, ...],
    entry: Entry,
    max_bytes: Callable[[tuple[str, ...]], int],
    shown_as: tuple[str, ...] = (),
) -> list[Entry]:
    """The files of one student's archive, each as new as the archive: the times within are the student's own words."""
    try:
        with shelf.archive(place) as archive:
            found = archive.entries(max_bytes)
    except RefusedError as error:
        return [refused(shown_as, str(error), entry.modified)]
    theirs = [one for one in found if one.path[-1:] != ("timestamp.txt",)]
    return [replace(one, path=(*shown_as[:-1], *one.path), modified=entry.modified) for one in theirs]


def is_single_submission(shelf: SubmissionSource) -> bool:
    """Whether the folder is one student's own, not one of many students'."""
    own = any(CODE.fullmatch(name) for name in shelf.files) or any(
        name.lower() in ("work", "code") for name in shelf.folders
    )
    return own or any(
        any(CODE.fullmatch(file) for file in shelf.below(name).files) for name in shelf.folders if LAB.fullmatch(name)
    )


def unwrap(shelf: SubmissionSource, roster: Roster | None) -> SubmissionSource:
    """The shelf within, where all stands in one folder more: nbgrader's `submitted`, Gradescope's export."""
    for _ in range(3):
        if "submitted" in shelf.folders and not _others(shelf, roster):
            return shelf.below("submitted")
        if len(shelf.folders) != 1 or any(name.endswith(".py") or archive_stem(name) for name in shelf.files):
            break
        name = shelf.folders[0]
        inner = shelf.below(name)
        many = len(inner.folders) + sum(name.endswith(".py") or bool(archive_stem(name)) for name in inner.files) > 1
        wraps = METADATA in inner.files or name.endswith(("submissions", "_export"))
        if is_single_submission(inner) or (roster and roster.find(name)) or LAB.fullmatch(name) or not (many or wraps):
            break
        shelf = inner
    return shelf


def _others(shelf: SubmissionSource, roster: Roster | None) -> bool:
    """Whether `submitted` is no folder of nbgrader's but a student of that name: there are submissions beside it."""
    beside = [name for name in shelf.folders if name not in NBGRADER]
    return any(archive_stem(name) for name in shelf.files) or any(
        (roster and roster.find(name)) or is_single_submission(shelf.below(name)) for name in beside
    )


def lab_sources(shelf: SubmissionSource, slugs: Mapping[str, str]) -> dict[str, str]:
    """The lab's number for each folder and archive of the shelf, if all are named for labs: lab-02/, lab-04.zip."""
    stems = {name: name for name in shelf.folders}
    stems |= {name: stem for name in shelf.files if (stem := archive_stem(name))}
    found = {name: slugs.get(stem) or _lab_number(stem) for name, stem in stems.items()}
    return found if all(found.values()) else {}


def _lab_number(name: str) -> str:
    match = LAB.fullmatch(name)
    return match["number"].zfill(2) if match else ""
