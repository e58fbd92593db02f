"""Notes on whose a hand-in is, where its name does not say it, and on students who may have handed it in."""

import re
from collections.abc import Collection, Mapping, Sequence

from rankzero.errors import UserError
from rankzero.grading.grade import Student
from rankzero.grading.intake.archives import SUFFIXES
from rankzero.grading.intake.layouts import OF_STUDENTS, Handin
from rankzero.grading.intake.roster import Roster
from rankzero.grading.intake.safe_names import fold_case, printable, safe_name
from rankzero.grading.intake.select_file import RESUME

_TEAM = re.compile(r"(?<![^\W_])(team|group|gruppe)(?![^\W_])", re.IGNORECASE)
GARBLED = "The names in {} are not marked as UTF-8 and may be misspelled: the tool that packed it did not say how."


def stranger_note(handin: Handin, student_id: str, roster: Roster | None) -> str:
    """Returns a note on a hand-in of somebody who is not in the roster, or is unknown by intent; '' otherwise."""
    name = printable(handin.name)
    if handin.anonymous:
        return f"{name} is anonymous: it is graded as {printable(student_id)}."
    if handin.another_name:
        return (
            f"{name} has the number of {printable(student_id)} and another name: if a group handed it in, give the "
            "roster a column group with the groups' names."
        )
    if roster is None or student_id in roster.by_id:
        return ""
    if _is_unknown_team(handin, roster):
        return f"{name} is not in the roster: if it is a team, give the roster a column group with the teams' names."
    return f"{name} is not in the roster."


def similar_id_notes(student_ids: Collection[str]) -> Mapping[str, list[str]]:
    """Returns a note for ids that differ in case or spelling only. UserError for two ids with the same file name."""
    groups: dict[str, list[str]] = {}
    files: dict[str, str] = {}
    for student_id in student_ids:
        groups.setdefault(fold_case(student_id), []).append(student_id)
        if (other := files.setdefault(safe_name(student_id).lower(), student_id)) != student_id:
            names = f"{printable(other)!r} and {printable(student_id)!r}"
            raise UserError(f"The students {names} would share files: rename one of them.")
    note = "There is another student whose id differs only in case or in how its letters are written."
    return {student_id: [note] for group in groups.values() if len(group) > 1 for student_id in group}


def unclear_notes(
    handins: Sequence[Handin], by_student: Mapping[str, tuple[Student, list[Handin]]], roster: Roster | None
) -> Mapping[str, list[str]]:
    """Returns notes on names of several students, or of unknown teams: for the hand-in, and for each student without
    a hand-in to whom it may belong.
    """
    notes: dict[str, list[str]] = {}
    missing = [student_id for student_id, (_, own) in by_student.items() if not own]
    strangers = [h.name for h in handins if roster and not h.candidates and _is_stranger(h, roster)]
    teams = [handin.name for handin in handins if roster and _is_unknown_team(handin, roster)]
    if teams:
        note = f"Handed in nothing, unless this student is in {printable(' or '.join(teams))}: give the roster groups."
        notes = {student_id: [note] for student_id in missing}
    elif 2 * len(strangers) > len(handins):
        note = "Handed in nothing, unless the name is another one: most names match nobody in the roster, such as"
        notes = {student_id: [f"{note} {printable(strangers[0])}."] for student_id in missing}
    for handin in handins:
        ids = [student.student_id for student in handin.candidates if student.student_id in missing]
        if ids:
            owners = " or ".join([*map(printable, ids[:3]), *(["others"] if len(ids) > 3 else [])])
            note = f"{printable(handin.name)} may be the work of {owners}: "
            if _lost_zeros(handin, ids):
                note += "the roster's id has lost its first zeros. Export the roster again, and do not save it in a "
                note += "spreadsheet."
            else:
                note += f"{_rename(handin, ids)} and {RESUME}."
            if handin.entries and handin.entries[0].why == OF_STUDENTS:
                note = f"{printable(handin.name)} {OF_STUDENTS}, and {RESUME}."
            for student_id in [*ids, *(student.student_id for student in handin.students)]:
                notes.setdefault(student_id, []).append(note)
    return notes


def _lost_zeros(handin: Handin, ids: Sequence[str]) -> bool:
    """Returns whether the hand-in's name is an id of the roster with more zeros before it."""
    name = handin.students[0].student_id
    return name.isdecimal() and any(name != own and name.lstrip("0") == own for own in ids)


def _rename(handin: Handin, ids: Sequence[str]) -> str:
    """Returns the advice by which a hand-in gets its student."""
    target = "this id" if len(ids) == 1 else "one of these ids"
    ending = next((end for end in (*SUFFIXES, ".py") if handin.name.lower().endswith(end)), "")
    example = f", as in {printable(ids[0])}{ending}," if ending else ""
    return f"{'unpack the archive, ' if handin.packed else ''}rename it to {target}{example}"


def _is_stranger(handin: Handin, roster: Roster) -> bool:
    """Returns whether a hand-in is of nobody in the roster."""
    return not handin.anonymous and not any(student.student_id in roster.by_id for student in handin.students)


def _is_unknown_team(handin: Handin, roster: Roster) -> bool:
    """Returns whether the name may be a team's, of which the roster says nothing."""
    if handin.another_name:
        return True
    return _is_stranger(handin, roster) and not roster.groups and bool(_TEAM.search(handin.name))
