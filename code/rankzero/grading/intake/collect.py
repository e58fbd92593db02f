"""Collection: from a folder or archive of submissions to one copied file per student and lab.

Nothing is run, and nothing is unpacked to disk. The layout of SUBMISSIONS is recognized:

- a folder per student, named by id, GitHub user name, email or full name: `alice/exercises.py` where one lab is graded;
  `alice/lab-02/exercises.py`; `alice/work/lab-02/exercises.py` and `alice/code/lab-02-…/exercises.py` in a clone of the
  curriculum; GitHub Classroom's `lab-02-alice/…`, by the roster's user names or the common beginning of all names;
- `alice.zip`, `alice.tar.gz` or `alice.py` instead of folders, and archives in a student's folder;
- nbgrader's `submitted/alice/lab-02/exercises.py` with `timestamp.txt`, or that `submitted` folder;
- the folders and files of a download from Canvas, Moodle, Blackboard, Brightspace or Sakai (system_names.py);
- ILIAS's `Abgaben/Lovelace_Ada_alove_301/…`, and `Abgaben/Team 17/Lovelace_Ada_alove_301/…` for a team;
- Teams' `Submitted files/Ada Lovelace/Lab 2/Version 2/exercises.py`: the highest version counts;
- Gradescope's export, `submission_123456/…` with `submission_metadata.yml`; a group's work counts for each member;
- a name in the roster's column `group` instead of a student's: the work counts for each member;
- any of these in a folder or archive per lab: `lab-02/alice/…`, `lab-04.zip`.

SUBMISSIONS may also be one .zip or .tar.gz with all submissions. Then archives inside it are not opened.

Of several files for one student and lab, the unchanged stub comes last. The order of the others is: the newer
attachment (Canvas) or hand-in, then the place inside it (`work/lab-02`, `lab-02`, `code/lab-02-…`, the top, anywhere
else), then the newer file, whether it is exercises.py, exercises (1).py or exercises copy.py. Files in folders called
`solutions` or `tests` never count. The hand-in time is the one that the course system states, or else the time of the
file, which in a class's archive is the member's (zip archives keep local time, taken for this machine's). It is unknown
in Canvas's downloads, and where all files of an archive or download have one time, which is that of the download. Files
of a student's own archive have the time of the archive, because the times inside are the student's claim.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import Lab
from rankzero.errors import UserError
from rankzero.grading.grade import Student, Submission
from rankzero.grading.intake.archives import Archive, archive_stem
from rankzero.grading.intake.layouts import OF_STUDENTS, Handin, read_handins
from rankzero.grading.intake.notebook_predictions import unusable_notebook
from rankzero.grading.intake.owner_notes import GARBLED, similar_id_notes, stranger_note, unclear_notes
from rankzero.grading.intake.roster import Roster
from rankzero.grading.intake.safe_names import printable, safe_name
from rankzero.grading.intake.select_file import is_code, max_bytes, select_file, select_notebook
from rankzero.grading.intake.submission_source import (
    ArchiveSource,
    FolderSource,
    SubmissionSource,
    lab_sources,
    own_work,
    unwrap,
)
from rankzero.grading.intake.untrusted_files import RefusedError

CLASS = 1000  # times the limits of one student's archive: the limits of an archive of a class


def collect(
    source: Path,
    labs: Sequence[Lab],
    out: Path,
    roster: Roster | None = None,
    recorded: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
) -> list[Submission]:
    """Returns one Submission per student and lab, including students who handed in nothing. Copies the files to
    OUT/submissions.

    Students come in the roster's order, then students outside the roster, each with all labs. Without a roster, the
    name of a folder or archive is the student's id. `recorded` are the facts of earlier runs (hand_in_record.py). A
    refused file becomes a note on its submission. UserError, before anything is written, if SUBMISSIONS cannot be read,
    holds no submissions, or overlaps OUT.
    """
    with ExitStack() as stack:
        handins = _read_all(source, labs, out, roster, stack)
        by_student: dict[str, tuple[Student, list[Handin]]] = {}
        for student in roster.students if roster else ():
            by_student[student.student_id] = (student, [])
        for handin in sorted(handins, key=lambda handin: handin.name):
            for student in handin.students:
                by_student.setdefault(student.student_id, (student, []))[1].append(handin)
        if any(handin.anonymous for handin in handins):  # then nothing is known of the roster's students
            by_student = {student_id: own for student_id, own in by_student.items() if own[1]}
        similar_ids, unclear = similar_id_notes(by_student), unclear_notes(handins, by_student, roster)
        submissions = []
        for student_id, (student, own_handins) in by_student.items():
            notes = [*unclear.get(student_id, []), *similar_ids.get(student_id, [])]
            if not unclear.get(student_id):
                notes += [stranger_note(handin, student_id, roster) for handin in own_handins]
            notes += [GARBLED.format(printable(handin.name)) for handin in own_handins if handin.garbled]
            group = sorted({member.student_id for handin in own_handins for member in handin.students} - {student_id})
            notes += [f"Handed in together with {', '.join(map(printable, group))}."] if group else []
            for lab in labs:
                chosen = (recorded or {}).get(lab.number, {}).get(student.student_id, {})
                found = _submission(student, own_handins, lab, len(labs) == 1, out, list(filter(None, notes)), chosen)
                doubtful = found.file is None and (found.doubtful or student_id in unclear)
                submissions.append(replace(found, doubtful=doubtful))
        return submissions


def _read_all(source: Path, labs: Sequence[Lab], out: Path, roster: Roster | None, stack: ExitStack) -> list[Handin]:
    """Returns all hand-ins, with their lists of files. UserError if there is none."""
    source_path, out_path = source.resolve(), out.resolve()
    if not source_path.exists():
        raise UserError(f"{source} does not exist: name the folder or the archive that holds the submissions.")
    if source_path.is_relative_to(out_path) or out_path.is_relative_to(source_path):
        raise UserError(f"one of {out} and {source} contains the other: choose another folder with --out.")
    try:
        handins = [
            handin
            for lab_source, lab in _lab_sources(source_path, labs, roster, stack)
            for handin in read_handins(lab_source, labs, roster, max_bytes, lab)
        ]
    except RefusedError as error:
        raise UserError(f"{source} {error}: name the folder or the archive that holds the submissions.") from None
    has_code = any(is_code(entry.path) for handin in handins for entry in handin.entries)
    student_ids = {student.student_id for handin in handins for student in handin.students}
    sections = [handin.name for handin in handins if handin.entries and handin.entries[0].why == OF_STUDENTS]
    if not has_code and sections:
        raise UserError(f"{source}/{printable(sections[0])} {OF_STUDENTS}.")
    if not has_code and not (roster and student_ids & roster.by_id.keys()):
        raise UserError(
            f"{source} holds nothing that looks like a submission: there must be a folder or an archive for each "
            "student, which contains exercises.py."
        )
    return handins


def _lab_sources(
    path: Path, labs: Sequence[Lab], roster: Roster | None, stack: ExitStack
) -> Iterator[tuple[SubmissionSource, str]]:
    """Yields the sources in which submissions lie side by side, each with its lab, or '' if it may hold several."""
    source: SubmissionSource
    if path.is_dir():
        source = FolderSource(path)
    elif archive_stem(path.name):
        source = _archive_source(Archive(path.parent, (path.name,), CLASS), path.name, stack)
    else:
        raise RefusedError("is neither a folder nor a .zip or .tar.gz")
    source = unwrap(source, roster)
    if own := own_work(source):
        reason = f"is one student's own folder, not one of many students', because of {printable(own)}"
        raise RefusedError(f"{reason} (move it away if it is not)")
    numbers = lab_sources(source, {lab.slug: lab.number for lab in labs})
    if not numbers:
        yield source, ""
    for name, number in numbers.items():
        if number in {lab.number for lab in labs}:
            in_folder = name in source.folders
            inner = source.below(name) if in_folder else _archive_source(source.archive((name,), CLASS), name, stack)
            yield unwrap(inner, roster), number


def _archive_source(archive: Archive, name: str, stack: ExitStack) -> ArchiveSource:
    return ArchiveSource(archive_stem(name), stack.enter_context(closing(archive)).entries(max_bytes))


def _submission(
    student: Student,
    handins: Sequence[Handin],
    lab: Lab,
    only_lab: bool,
    out: Path,
    student_notes: Sequence[str],
    chosen: Mapping[str, Any],
) -> Submission:
    selected = select_file(handins, lab, only_lab, chosen)
    notes = (*student_notes, *selected.notes)
    if selected.data is None:
        return Submission(student, lab.number, None, notes=notes, doubtful=bool(selected.notes))
    file = out / "submissions" / lab.number / safe_name(student.student_id) / "exercises.py"
    write_atomically(file, selected.data)
    file.chmod(0o644)  # the grader may run as another user
    if notebook := select_notebook(handins, lab, only_lab):
        write_atomically(file.with_name("notebook.ipynb"), notebook)
        if reason := unusable_notebook(notebook):
            notes = (*notes, f"The notebook {reason}: its predictions are not counted.")
    digest = hashlib.sha256(selected.data).hexdigest()
    return Submission(
        student, lab.number, file, digest, selected.submitted_at, notes, selected.passed_over, selected.one_time
    )
