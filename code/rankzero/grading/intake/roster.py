"""Roster: the students of a class, found by the names that course systems give them."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rankzero.grading.grade import Student
from rankzero.grading.intake.safe_names import fold_case
from rankzero.grading.intake.system_names import WITHOUT_GROUP


@dataclass(frozen=True)
class Roster:
    """The students in the order of the file, found by any of their names."""

    students: tuple[Student, ...]
    usernames: Mapping[str, Student] = field(default_factory=dict)  # by GitHub user name, in lower case
    groups: Mapping[str, tuple[Student, ...]] = field(default_factory=dict)  # by `letters` of the name; "" for no group
    numbers: Mapping[tuple[str, str], Student] = field(default_factory=dict)  # by system and its own number of a person

    def find(self, name: str) -> Student | None:
        """Returns the student with this id, GitHub user name, login, email, full name, email up to the @, or full name
        without spaces, accents and punctuation, in this order.

        Case matters only if two ids differ in nothing else. None for an unknown or an ambiguous name.
        """
        if student := self.by_id.get(unicodedata.normalize("NFC", name)):
            return student
        key = fold_case(name)
        return next((table[key] for table in self._tables if key in table), None) or self._letters.get(letters(name))

    def group(self, name: str) -> tuple[Student, ...]:
        """Returns the students of a group, or of the others for Moodle's `Default group`; () for an unknown group."""
        key = letters(name)
        members = self.groups.get(key) or (self.groups.get("") if key == letters(WITHOUT_GROUP) else None)
        return members or ()

    def alike(self, name: str) -> tuple[Student, ...]:
        """Returns the students whose id or login is part of a name, or who have a word of their names in common."""
        words = {letters(word) for word in re.split(r"[\W_]+", name)}
        return tuple(
            student
            for student in self.students
            if words & {letters(student.student_id), letters(student.login)} - {""}
            or any(len(word) > 2 and (word in words or word in letters(name)) for word in words_of(student))
        )

    def with_other_zeros(self, name: str) -> tuple[Student, ...]:
        """Returns the students whose id is this number with more or fewer zeros before it: spreadsheets drop zeros."""
        digits = name.lstrip("0")
        if not name.isdecimal() or not digits:
            return ()
        return tuple(s for s in self.students if s.student_id.isdecimal() and s.student_id.lstrip("0") == digits)

    def all_named(self, name: str) -> tuple[Student, ...]:
        """Returns every student with this id, email or full name: for a name that `find` does not know."""
        key = fold_case(name)
        return tuple(
            student
            for student in self.students
            if key in {fold_case(student.student_id), fold_case(student.email), *full_names(student)}
        )

    @cached_property
    def by_id(self) -> Mapping[str, Student]:
        """Returns the students by id."""
        return {student.student_id: student for student in self.students}

    @cached_property
    def _letters(self) -> Mapping[str, Student]:
        return _unique((letters(name), student) for student in self.students for name in full_names(student))

    @cached_property
    def _tables(self) -> Sequence[Mapping[str, Student]]:
        """Students by their names, in the order of `find`."""
        return (
            _unique((fold_case(student.student_id), student) for student in self.students),
            self.usernames,
            _unique((fold_case(student.login), student) for student in self.students),
            _unique((fold_case(student.email), student) for student in self.students),
            _unique((name, student) for student in self.students for name in full_names(student)),
            _unique((fold_case(student.email.partition("@")[0]), student) for student in self.students),
        )


def full_names(student: Student) -> set[str]:
    """Returns the forms of a full name, in lower case: 'ada lovelace', 'lovelace, ada', Canvas's 'lovelaceada'."""
    first, last = fold_case(student.first_name), fold_case(student.last_name)
    if not (first and last):
        return {first or last} - {""}
    joined = re.sub(r"[\W_]", "", last + first)
    return {f"{first} {last}", f"{last} {first}", f"{last}, {first}", joined}


def letters(name: str) -> str:
    """Returns only the letters and digits of a name, in lower case and without accents, as systems shorten names."""
    text = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in text if unicodedata.category(letter)[0] in "LN")


def words_of(student: Student) -> set[str]:
    """Returns the words of a student's names."""
    return {letters(word) for name in (student.first_name, student.last_name) for word in re.split(r"[\W_]+", name)}


def _unique(pairs: Iterable[tuple[str, Student]]) -> dict[str, Student]:
    """Returns the students by key, without keys that several students share."""
    unique = set(pairs)
    counts = Counter(key for key, _ in unique)
    return {key: student for key, student in unique if key and counts[key] == 1}


def split_name(name: str) -> tuple[str, str]:
    """Returns first and last name of 'Ada Lovelace' or 'Lovelace, Ada'."""
    if "," in name:
        last, _, first = name.partition(",")
    else:
        first, _, last = name.rpartition(" ")
    return first.strip(), last.strip()
