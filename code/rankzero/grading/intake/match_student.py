"""Whose a folder or file is, by its name: as an id, or as Moodle, Canvas and GitHub Classroom make names."""

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rankzero.curriculum import Lab
from rankzero.grading.grade import Student
from rankzero.grading.intake.roster import Roster, split_name
from rankzero.grading.intake.safe_names import fold_case, printable, short_hash

# The rest is the student's own word for the file: it may look like a beginning.
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_[a-z]+_?(?P<rest>.*)", re.DOTALL)
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_(?P<attachment>\d+)_(?P<rest>.+)", re.DOTALL)
_CLASSROOM = re.compile(r"lab[-_]?0*(?P<number>\d{1,2})[-_](?P<user>.+)", re.IGNORECASE)


@dataclass(frozen=True)
class StudentMatch:
    """Whose it is, and what else the name says."""

    student: Student
    lab: str = ""
    exact: bool = True  # whether the name is the very id
    serial: int = 0  # higher is newer, where the system counts


@dataclass
class StudentMatcher:
    """The owners of all names that stand in one place: one name is understood by its neighbors."""

    names: Sequence[str]
    labs: Sequence[Lab]
    roster: Roster | None
    users: dict[str, tuple[str, str]] = field(init=False)  # lab and GitHub user, by name
    twice: set[str] = field(init=False)  # full names that several people in this place have

    def __post_init__(self) -> None:
        """Looks at all names together."""
        people = {(match["name"], match["number"]) for match in map(system_name, self.names) if match}
        counted = [name for name, _ in people]
        self.twice = {name for name in counted if counted.count(name) > 1}
        rest = [name for name in self.names if name and not system_name(name) and not self.who([name])]
        self.users = {name: self._classroom(name) for name in rest}
        for lab in {lab for lab, _ in self.users.values()} if self.roster else ():
            group = {name: user for name, (one, user) in self.users.items() if one == lab}
            beginning = _common_beginning(list(group.values()))
            # A whole user name comes first: people whose names begin alike have a common beginning too.
            if beginning and not any(self.who([user]) for user in group.values()):
                self.users |= {name: (lab, user[len(beginning) :]) for name, user in group.items()}

    def of(self, name: str) -> StudentMatch:
        """Whose the folder or file of that name is: a student of the roster, or else one named like it."""
        if match := system_name(name):
            return self._of_system(match)
        if student := self.who([name]):
            return StudentMatch(student, exact=student.student_id == name)
        lab, user = self.users.get(name, ("", name))
        usernames = self.roster.usernames if self.roster else {}
        student = usernames.get(fold_case(user)) if usernames and user != name else self.who([user])
        return StudentMatch(student or Student(self.stranger(user if lab else "", name)), lab)

    def who(self, names: Iterable[str]) -> Student | None:
        """The one student whom these names find; nobody if they find two."""
        found = {student for name in names if self.roster and (student := self.roster.find(name))}
        return found.pop() if len(found) == 1 else None

    def stranger(self, name: str, whole: str) -> str:
        """An id for somebody who is not in the roster: the name, or the whole name; never one of the roster's ids."""
        ids = {one.student_id for one in self.roster.students} if self.roster else set()
        one = next((one for one in (name, whole) if one and one not in ids), f"{whole} (not the student)")
        plain = printable(one, 100)
        return plain if plain == one else f"{printable(one, 40)}-{short_hash(one)}"

    def _of_system(self, match: re.Match[str]) -> StudentMatch:
        full, number = match["name"], match["number"]
        serial = int(match["attachment"][-18:]) if match.re is _CANVAS else 0
        if full in self.twice:
            student = self.who([number]) if serial else None
            return StudentMatch(student or Student(self.stranger(f"{full}_{number}", match[0])), serial=serial)
        if serial:
            return StudentMatch(self.who([full, number]) or Student(self.stranger(full, match[0])), serial=serial)
        without_group = full.partition("-")[2]  # Moodle puts a group's name before the student's
        first, last = split_name(full)
        own = Student(self.stranger(full, match[0]), last, first)
        return StudentMatch(self.who([full]) or self.who([without_group]) or own)

    def _classroom(self, name: str) -> tuple[str, str]:
        """lab-02-alice: lab 02, user alice. With the lab's whole name, too."""
        for lab in self.labs:
            if name.lower().startswith(f"{lab.slug}-"):
                return lab.number, name[len(lab.slug) + 1 :]
        found = _CLASSROOM.fullmatch(name)
        return (found["number"].zfill(2), found["user"]) if found else ("", name)


def system_name(name: str) -> re.Match[str] | None:
    """The parts of a name that Canvas or Moodle has made: `name`, `number`, and `rest`, what the student called it."""
    return _CANVAS.fullmatch(name) or _MOODLE.fullmatch(name)


def _common_beginning(names: Sequence[str]) -> str:
    """What all names begin with, up to a hyphen."""
    if len(names) < 2:
        return ""
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    beginning = "".join(letters[0] for letters in same)
    return beginning[: beginning.rfind("-") + 1]
