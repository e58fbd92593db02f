"""Finds what each student handed in for each lab, and copies it: nothing is run, and nothing is unpacked to disk.

SUBMISSIONS may hold, and what it holds is recognized by itself:

- a folder a student, named by id, GitHub user name, email or full name: `alice/exercises.py` where one lab is graded;
  `alice/lab-02/exercises.py`; `alice/work/lab-02/exercises.py` and `alice/code/lab-02-…/exercises.py` in a clone of the
  curriculum; GitHub Classroom's `lab-02-alice/…`, with the roster's user names or what all names begin with;
- `alice.zip`, `alice.tar.gz` or `alice.py` instead of folders, and archives in a student's folder;
- nbgrader's `submitted/alice/lab-02/exercises.py` with `timestamp.txt`, or that `submitted` folder;
- Moodle's `Ada Lovelace_12345_assignsubmission_file_/…` and Canvas's `lovelaceada_LATE_1234_5678_exercises.py`;
- Gradescope's export, `submission_123456/…` with `submission_metadata.yml`; a group's work counts for each of it;
- any of these once more in a folder or archive for each lab: `lab-02/alice/…`, `lab-04.zip`.

SUBMISSIONS may be one .zip or .tar.gz of all. Then archives within it are not opened.

Of several files for one student and lab, the untouched stub comes last; then counts which attachment (Canvas) or place
is newer, then the place within it (`work/lab-02`, `lab-02`, `code/lab-02-…`, the top, anywhere else), then the time.
Files in folders called `solutions` or `tests` never count. Handed in at: what nbgrader's or Gradescope's metadata say;
else the time of the file, and in a class's archive of the member (zip archives keep local time, taken for this
machine's). Files of a student's own archive are as old as the archive: what it says of them is the student's word.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.grading.grade import Student, Submission
from rankzero.grading.intake.archives import Archive, archive_stem
from rankzero.grading.intake.layouts import Handin, read_source
from rankzero.grading.intake.roster import Roster
from rankzero.grading.intake.safe_names import fold_case, printable, safe_name
from rankzero.grading.intake.select_file import is_code, max_bytes, select_file, select_notebook
from rankzero.grading.intake.submission_source import (
    ArchiveSource,
    FolderSource,
    SubmissionSource,
    is_single_submission,
    lab_sources,
    unwrap,
)
from rankzero.grading.intake.untrusted_files import RefusedError

__all__ = ["collect", "safe_name"]

CLASS = 1000  # so many times as much as one student's archive may an archive of all hold


def collect(source: Path, labs: Sequence[Lab], out: Path, roster: Roster | None = None) -> list[Submission]:
    """One Submission for each student and lab, those who handed in nothing included; copies lie in OUT/submissions.

    Students come in the roster's order, then those who are not in it, each with all labs. Without a roster the name of
    a folder or archive is the student's id. What is refused is a note on that submission. UserError, before anything
    is written, if SUBMISSIONS cannot be read, holds no submissions, or overlaps OUT.
    """
    with ExitStack() as stack:
        handins = _handins(source, labs, out, roster, stack)
        found: dict[str, tuple[Student, list[Handin]]] = {}
        known = {one.student_id: one for one in (roster.students if roster else ())}
        for student in known.values():
            found[student.student_id] = (student, [])
        for one in sorted(handins, key=lambda one: one.name):
            for student in one.students:
                found.setdefault(student.student_id, (student, []))[1].append(one)
        alike = _alike(found)
        submissions = []
        for student_id, (student, theirs) in found.items():
            about = [
                f"{printable(one.name)} is not in the roster." for one in theirs if roster and student_id not in known
            ]
            about += alike.get(student_id, [])
            together = sorted({other.student_id for one in theirs for other in one.students} - {student_id})
            about += [f"Handed in together with {', '.join(map(printable, together))}."] if together else []
            submissions += [_submission(student, theirs, lab, len(labs) == 1, out, about) for lab in labs]
        return submissions


def _handins(source: Path, labs: Sequence[Lab], out: Path, roster: Roster | None, stack: ExitStack) -> list[Handin]:
    """All that was handed in, read as far as its list of files. UserError if that is nothing."""
    here, there = source.resolve(), out.resolve()
    if not here.exists():
        raise UserError(f"{source} does not exist: name the folder or the archive that holds the submissions.")
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise UserError(f"{out} and {source} lie one in the other: choose another folder with --out.")
    try:
        handins = [
            handin
            for shelf, lab in _sources(here, labs, roster, stack)
            for handin in read_source(shelf, labs, roster, max_bytes, lab)
        ]
    except RefusedError as error:
        raise UserError(f"{source} {error}: name the folder or the archive that holds the submissions.") from None
    code = any(is_code(entry.path) for one in handins for entry in one.entries)
    listed = {one.student_id for one in (roster.students if roster else ())}
    if not code and not any(student.student_id in listed for one in handins for student in one.students):
        raise UserError(
            f"{source} holds nothing that looks like a submission: there must be a folder or an archive for each "
            "student, with exercises.py in it."
        )
    return handins


def _sources(
    source: Path, labs: Sequence[Lab], roster: Roster | None, stack: ExitStack
) -> Iterator[tuple[SubmissionSource, str]]:
    """The places where students' submissions stand side by side, and the lab that such a place is for."""
    shelf: SubmissionSource
    if source.is_dir():
        shelf = FolderSource(source)
    elif archive_stem(source.name):
        shelf = _archive_source(Archive(source.parent, (source.name,), CLASS), source.name, stack)
    else:
        raise RefusedError("is neither a folder nor a .zip or .tar.gz")
    shelf = unwrap(shelf, roster)
    if is_single_submission(shelf):
        raise RefusedError("is one student's own folder, not one of many students'")
    by_lab = lab_sources(shelf, {lab.slug: lab.number for lab in labs})
    if not by_lab:
        yield shelf, ""
    for name, number in by_lab.items():
        if number in {lab.number for lab in labs}:
            in_folder = name in shelf.folders
            inner = shelf.below(name) if in_folder else _archive_source(shelf.archive((name,), CLASS), name, stack)
            yield unwrap(inner, roster), number


def _archive_source(archive: Archive, name: str, stack: ExitStack) -> ArchiveSource:
    return ArchiveSource(archive_stem(name), stack.enter_context(archive).entries(max_bytes))


def _alike(ids: Collection[str]) -> Mapping[str, list[str]]:
    """A note for ids that look the same. UserError for two whose files would have the same name."""
    looks: dict[str, list[str]] = {}
    files: dict[str, str] = {}
    for one in ids:
        looks.setdefault(fold_case(one), []).append(one)
        if (other := files.setdefault(safe_name(one).lower(), one)) != one:
            raise UserError(
                f"The students {printable(other)!r} and {printable(one)!r} would share files: rename one of them."
            )
    text = "There is another student whose id differs only in case or in how its letters are written."
    return {one: [text] for group in looks.values() if len(group) > 1 for one in group}


def _submission(
    student: Student, handins: Sequence[Handin], lab: Lab, only: bool, out: Path, about: Sequence[str]
) -> Submission:
    picked = select_file(handins, lab, only)
    notes = (*about, *picked.notes)
    if picked.data is None:
        return Submission(student, lab.number, None, notes=notes)
    folder = out / "submissions" / lab.number / safe_name(student.student_id)
    write_atomically(folder / "exercises.py", picked.data)
    (folder / "exercises.py").chmod(0o644)  # whoever grades may be another user
    if notebook := select_notebook(handins, lab, only):
        write_atomically(folder / "notebook.ipynb", notebook)
    digest = hashlib.sha256(picked.data).hexdigest()
    return Submission(student, lab.number, folder / "exercises.py", digest, picked.submitted_at, notes)
