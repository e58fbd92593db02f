"""Student matching: the student or the team to whom a folder or file belongs, by its name.

A name is an id, user name, email, full name or group of the roster, or a name that a course system or GitHub Classroom
makes of one.
"""

import os.path
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rankzero.curriculum import Lab
from rankzero.grading.grade import Student
from rankzero.grading.intake.roster import Roster, letters, split_name, words_of
from rankzero.grading.intake.safe_names import fold_case, printable, short_hash
from rankzero.grading.intake.system_names import SystemName, system_names

_CLASSROOM = re.compile(r"lab[-_]?0*(?P<number>\d{1,2})[-_](?P<user>.+)", re.IGNORECASE)


@dataclass(frozen=True)
class StudentMatch:
    """The students whom a name identifies, and the other facts in the name."""

    students: tuple[Student, ...]
    lab: str = ""
    exact: bool = True  # whether the name is the student's id, letter by letter
    system: SystemName | None = None


@dataclass
class StudentMatcher:
    """Matches all names of one folder, since some names can be understood by their neighbors only."""

    folders: Sequence[str]
    files: Sequence[str]  # without the endings of files that are no course system's
    labs: Sequence[Lab]
    roster: Roster | None
    systems: dict[str, SystemName] = field(init=False)  # by name
    users: dict[str, tuple[str, str]] = field(init=False)  # lab and GitHub user, by name
    shared_names: set[str] = field(init=False)  # full names that several people in this folder have

    def __post_init__(self) -> None:
        """Finds the course system, shared full names, and the common beginning of GitHub Classroom's names."""
        self.systems = system_names(self.folders, self.files)
        people = {system.person for system in self.systems.values() if system.number and not system.anonymous}
        self.shared_names = {name for name, count in Counter(name for name, _ in people).items() if count > 1}
        names = (*self.folders, *self.files)
        unknown = [name for name in names if name and name not in self.systems and not self.known(name)]
        self.users = {name: self._split_classroom_name(name) for name in unknown}
        for lab in {lab for lab, _ in self.users.values()} if self.roster else ():
            users = {name: user for name, (user_lab, user) in self.users.items() if user_lab == lab}
            beginning = _common_beginning(list(users.values()))
            # A whole user name has precedence: people whose names begin alike have a common beginning too.
            if beginning and not any(self.known(user) for user in users.values()):
                self.users |= {name: (lab, user[len(beginning) :]) for name, user in users.items()}

    def match(self, name: str) -> StudentMatch:
        """Returns the students of the roster whom `name` identifies, or a student whose id is made of the name."""
        if system := self.systems.get(name):
            return StudentMatch(self._of_system(name, system), exact=False, system=system)
        if student := self.find([name]):
            return StudentMatch((student,), exact=student.student_id == name)
        lab, user = self.users.get(name, ("", name))
        usernames = self.roster.usernames if self.roster else {}
        student = usernames.get(fold_case(user)) if usernames and user != name else self.find([user])
        students = (student,) if student else self._group([name, user])
        return StudentMatch(students or (Student(self.unknown_id(user if lab else "", name)),), lab)

    def find(self, names: Iterable[str]) -> Student | None:
        """Returns the student of the roster whom these names identify; None if they identify no student or several."""
        students = {student for name in names if self.roster and (student := self.roster.find(name))}
        return students.pop() if len(students) == 1 else None

    def candidates(self, name: str) -> tuple[Student, ...]:
        """Returns the students of the roster to whom a name may belong that identifies none of them."""
        if not self.roster:
            return ()
        system = self.systems.get(name)
        names = [system.full_name, *_after_hyphens(system.full_name), *system.users] if system else [name]
        for find in (self.roster.all_named, self.roster.with_other_zeros, self.roster.alike):
            if students := [student for name in names if name for student in find(name)]:
                return tuple(dict.fromkeys(students))
        return ()

    def unknown_id(self, name: str, whole_name: str) -> str:
        """Returns an id for a person outside the roster, made of one of the names; never an id of the roster."""
        ids = self.roster.by_id if self.roster else {}
        candidates = (candidate for candidate in (name, whole_name) if candidate and candidate not in ids)
        student_id = next(candidates, f"{whole_name} (not the student)")
        if printable(student_id, 100) == student_id:
            return student_id
        return f"{printable(student_id, 40)}-{short_hash(student_id)}"

    def names_another(self, system: SystemName, students: Sequence[Student]) -> bool:
        """Returns whether the number is a student's and the name is not, as Canvas names what a group hands in."""
        return any(
            student == self._of_number(system) and _has_another_name(system, student) for student in students[:1]
        )

    def _of_number(self, system: SystemName) -> Student | None:
        return self.roster.numbers.get((system.system, system.number)) if self.roster else None

    def _of_system(self, name: str, system: SystemName) -> tuple[Student, ...]:
        full_name, roster = system.full_name, self.roster
        if student := self._of_number(system):
            members = self._group([full_name]) if _has_another_name(system, student) else ()
            return members if student in members else (student,)
        if system.anonymous:
            return (Student(self.unknown_id(system.anonymous, name)),)
        if system.system != "Canvas" and (student := self._first(system.users)):
            return (student,)
        if full_name in self.shared_names:  # the number may tell who it is, but of these people only
            namesakes = roster.all_named(full_name) if roster else ()
            meant = tuple(student for student in namesakes if system.number and student.student_id == system.number)
            return meant or (Student(self.unknown_id(f"{full_name}_{system.number}", name)),)
        names = [full_name, *(system.users if system.system == "Canvas" else ())]
        names += _after_hyphens(full_name) if system.system == "Moodle" else []  # where groups come before the name
        if student := self._first(names):
            return (student,)
        if roster and (student := roster.by_id.get(system.number)) and not student.full_name:
            return (student,)  # of whom nothing is known but the number
        if students := self._group([*names, *system.users]):
            return students
        user = system.users[-1] if system.users and system.system != "Canvas" else full_name
        first, last = ("", "") if system.system == "Canvas" else split_name(full_name)
        return (Student(self.unknown_id(user, name), last, first),)

    def _first(self, names: Iterable[str]) -> Student | None:
        return next(filter(None, (self.find([name]) for name in names)), None)

    def _group(self, names: Iterable[str]) -> tuple[Student, ...]:
        return next(filter(None, (self.roster.group(name) for name in names)), ()) if self.roster else ()

    def known(self, name: str) -> bool:
        """Returns whether the name is a student's or a group's in the roster."""
        return bool(self.find([name]) or self._group([name]))

    def _split_classroom_name(self, name: str) -> tuple[str, str]:
        """Returns lab and user of a name such as lab-02-alice or lab-02-single-gpu-training-alice."""
        for lab in self.labs:
            if name.lower().startswith(f"{lab.slug}-"):
                return lab.number, name[len(lab.slug) + 1 :]
        match = _CLASSROOM.fullmatch(name)
        return (match["number"].zfill(2), match["user"]) if match else ("", name)


def _has_another_name(system: SystemName, student: Student) -> bool:
    """Returns whether the full name in a system's name has no word of the student's names."""
    name, words = letters(system.full_name), [word for word in words_of(student) if len(word) > 1]
    return not system.anonymous and bool(name and words) and not any(word in name for word in words)


def _after_hyphens(name: str) -> list[str]:
    """Returns what follows each hyphen of a name."""
    return [name[place + 1 :] for place, letter in enumerate(name) if letter == "-"]


def _common_beginning(names: Sequence[str]) -> str:
    """Returns the common beginning of several names, up to its last hyphen."""
    beginning = os.path.commonprefix(list(names)) if len(names) > 1 else ""  # noqa: RUF071 (by letters)
    return beginning[: beginning.rfind("-") + 1]
