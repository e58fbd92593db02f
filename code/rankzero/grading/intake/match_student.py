"""Student matching: the student to whom a folder or file belongs, by its name.

A name is an id, user name, email or full name, or the name that Moodle, Canvas or GitHub Classroom makes of one.
"""

import os.path
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rankzero.curriculum import Lab
from rankzero.grading.grade import Student
from rankzero.grading.intake.roster import Roster, split_name
from rankzero.grading.intake.safe_names import fold_case, printable, short_hash

# `rest` is the student's own name for the file, and may look like the beginning of a system's name.
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_[a-z]+_?(?P<rest>.*)", re.DOTALL)
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_(?P<attachment>\d+)_(?P<rest>.+)", re.DOTALL)
_CLASSROOM = re.compile(r"lab[-_]?0*(?P<number>\d{1,2})[-_](?P<user>.+)", re.IGNORECASE)


@dataclass(frozen=True)
class StudentMatch:
    """The student whom a name identifies, and the other facts in the name."""

    student: Student
    lab: str = ""
    exact: bool = True  # whether the name is the student's id, letter by letter
    serial: int = 0  # higher is newer, in systems that number the attachments


@dataclass
class StudentMatcher:
    """Matches all names of one folder, since some names can be understood by their neighbors only."""

    names: Sequence[str]
    labs: Sequence[Lab]
    roster: Roster | None
    users: dict[str, tuple[str, str]] = field(init=False)  # lab and GitHub user, by name
    shared_names: set[str] = field(init=False)  # full names that several people in this folder have

    def __post_init__(self) -> None:
        """Finds shared full names, and the common beginning of GitHub Classroom's names."""
        people = {(match["name"], match["number"]) for match in map(system_name, self.names) if match}
        self.shared_names = {name for name, count in Counter(name for name, _ in people).items() if count > 1}
        unknown = [name for name in self.names if name and not system_name(name) and not self.find([name])]
        self.users = {name: self._split_classroom_name(name) for name in unknown}
        for lab in {lab for lab, _ in self.users.values()} if self.roster else ():
            users = {name: user for name, (user_lab, user) in self.users.items() if user_lab == lab}
            beginning = _common_beginning(list(users.values()))
            # A whole user name has precedence: people whose names begin alike have a common beginning too.
            if beginning and not any(self.find([user]) for user in users.values()):
                self.users |= {name: (lab, user[len(beginning) :]) for name, user in users.items()}

    def match(self, name: str) -> StudentMatch:
        """Returns the student of the roster whom `name` identifies, or a student whose id is made of the name."""
        if system := system_name(name):
            return self._match_system_name(system)
        if student := self.find([name]):
            return StudentMatch(student, exact=student.student_id == name)
        lab, user = self.users.get(name, ("", name))
        usernames = self.roster.usernames if self.roster else {}
        student = usernames.get(fold_case(user)) if usernames and user != name else self.find([user])
        return StudentMatch(student or Student(self.unknown_id(user if lab else "", name)), lab)

    def find(self, names: Iterable[str]) -> Student | None:
        """Returns the student of the roster whom these names identify; None if they identify no student or several."""
        students = {student for name in names if self.roster and (student := self.roster.find(name))}
        return students.pop() if len(students) == 1 else None

    def candidates(self, name: str) -> tuple[Student, ...]:
        """Returns the students of the roster to whom a name may belong that identifies none of them."""
        full_name = system["name"] if (system := system_name(name)) else name
        names = (full_name, full_name.partition("-")[2]) if system else (full_name,)
        students = [student for name in names if self.roster and name for student in self.roster.all_named(name)]
        return tuple(dict.fromkeys(students))

    def unknown_id(self, name: str, whole_name: str) -> str:
        """Returns an id for a person outside the roster, made of one of the names; never an id of the roster."""
        ids = self.roster.by_id if self.roster else {}
        candidates = (candidate for candidate in (name, whole_name) if candidate and candidate not in ids)
        student_id = next(candidates, f"{whole_name} (not the student)")
        if printable(student_id, 100) == student_id:
            return student_id
        return f"{printable(student_id, 40)}-{short_hash(student_id)}"

    def _match_system_name(self, match: re.Match[str]) -> StudentMatch:
        full_name, number = match["name"], match["number"]
        serial = int(match["attachment"][-18:]) if match.re is _CANVAS else 0
        if full_name in self.shared_names:
            student = self.find([number]) if serial else None
            return StudentMatch(student or Student(self.unknown_id(f"{full_name}_{number}", match[0])), serial=serial)
        if serial:
            student = self.find([full_name, number]) or Student(self.unknown_id(full_name, match[0]))
            return StudentMatch(student, serial=serial)
        without_group = full_name.partition("-")[2]  # Moodle puts a group's name before the student's
        first, last = split_name(full_name)
        unknown = Student(self.unknown_id(full_name, match[0]), last, first)
        return StudentMatch(self.find([full_name]) or self.find([without_group]) or unknown)

    def _split_classroom_name(self, name: str) -> tuple[str, str]:
        """Returns lab and user of a name such as lab-02-alice or lab-02-single-gpu-training-alice."""
        for lab in self.labs:
            if name.lower().startswith(f"{lab.slug}-"):
                return lab.number, name[len(lab.slug) + 1 :]
        match = _CLASSROOM.fullmatch(name)
        return (match["number"].zfill(2), match["user"]) if match else ("", name)


def system_name(name: str) -> re.Match[str] | None:
    """Returns the parts `name`, `number` and `rest` of a name that Canvas or Moodle has made, or None."""
    return _CANVAS.fullmatch(name) or _MOODLE.fullmatch(name)


def _common_beginning(names: Sequence[str]) -> str:
    """Returns the common beginning of several names, up to its last hyphen."""
    beginning = os.path.commonprefix(list(names)) if len(names) > 1 else ""  # noqa: RUF071 (by letters)
    return beginning[: beginning.rfind("-") + 1]
