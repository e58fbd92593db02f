"""Names that course systems make for folders and files of submissions, and the facts in them.

The system writes the beginning of such a name. `rest`, the student's own name for the file, may look like the beginning
of another student's name and is never read for facts.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from rankzero.errors import UserError
from rankzero.grading.intake.timestamps import parse_time

_CANVAS = re.compile(
    r"(?:(?P<late_1>LATE_)?anon_(?P<late_2>LATE_)?(?P<anonymous>[^\W_]{5})"
    r"|(?P<name>[^_]+(?:_(?!LATE_)[^_\d][^_]*)*)_(?P<late>LATE_)?(?P<number>\d+))"
    r"_(?:(?P<attachment>\d+)_(?P<rest>.+)|(?:text|link)\.html)",
    re.DOTALL | re.IGNORECASE,
)
_CANVAS_NAME = re.compile(r"(.+?_.+?)_(?:LATE_)?\d+_\d+_", re.DOTALL | re.IGNORECASE)  # with an underscore in it
_MOODLE = re.compile(r"(?P<name>.+?)(?:_(?P<number>\d+))?_assignsubmission_[a-z]+_?(?P<rest>.*)", re.DOTALL)
_BLACKBOARD = re.compile(
    r"(?P<title>.+?)_attempt_(?P<day>\d{4}-\d\d-\d\d)-(?P<time>\d\d-\d\d-\d\d)(?:_(?P<rest>.+)|\.txt)?", re.DOTALL
)
_BRIGHTSPACE = re.compile(
    r"\d+-\d+ - (?P<name>.+?) - (?P<date>(?:(?! - ).)*\b20\d\d\b(?:(?! - ).)*)(?: - (?P<rest>.+))?", re.DOTALL
)
_BRIGHTSPACE_DATE = re.compile(
    r"(?:(?P<month>[A-Za-z]{3})[a-z]*\.? (?P<day>\d\d?)|(?P<day_first>\d\d?) (?P<month_last>[A-Za-z]{3})[a-z]*\.?),? "
    r"(?P<year>\d{4}),? (?P<hour>\d\d?)(?P<minute>\d\d)(?: ?(?P<half>[AP])M)?",
    re.IGNORECASE,
)
_ILIAS = re.compile(r"(?P<last>[^_]+)_(?P<first>[^_]+)_(?P<user>.+)_(?P<number>\d+)")
_SAKAI = re.compile(r"(?P<last>[^,]*), ?(?P<first>.*)\((?P<user>[^()]+)\)")
PARTICIPANT = re.compile(r"(?:participant|teilnehmer(?:/?-?in)?)\s?(?P<number>\d+)", re.IGNORECASE)
WITHOUT_GROUP = "Default group"  # Moodle's team of all who are in no group
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True)
class SystemName:
    """The facts in a name that a course system has made."""

    system: str
    full_name: str = ""  # of a person or a team; Canvas writes it without spaces
    users: tuple[str, ...] = ()  # user names or ids of the person, the likeliest first
    number: str = ""  # the system's own number of the person
    anonymous: str = ""  # the id of an unknown person, in blind marking
    serial: int = 0  # higher is newer
    submitted_at: str = ""  # ISO 8601
    late: bool = False  # marked as late, by an unknown time
    has_time: bool = True  # False if the files' times are those of the download, whatever they are
    rest: str = ""

    @property
    def person(self) -> tuple[str, str]:
        """Returns what tells two people apart who have one full name."""
        return self.full_name, self.number


def system_names(folders: Collection[str], files: Collection[str] = ()) -> dict[str, SystemName]:
    """Returns the facts in the names that a course system has made, by name.

    A single name may have the form of two systems, by chance or because a student wants to be taken for another. So one
    system made all names of a folder: the one whose form most of them have.
    """
    readings = [{name: facts for name in (*folders, *files) if (facts := read(name))} for read in _READERS]
    ilias = {name: facts for name in folders if (facts := _ilias(name))}
    if 2 * len(ilias) > len(folders):  # one name of this form among others may be an id
        readings.append(ilias)
    # Of two forms that equally many names have, that in which students choose more of the names has made them.
    return max(readings, key=lambda facts: (len(facts), sum(len(name.rest) for name in facts.values())))


def _blackboard(name: str) -> SystemName | None:
    match = _BLACKBOARD.fullmatch(name)
    if not match:
        return None
    words = match["title"].split("_")  # of the assignment's title and of the user name
    users = tuple("_".join(words[start:]) for start in range(1, len(words)))
    moment = f"{match['day']} {match['time'].replace('-', ':')}"
    serial = int(re.sub(r"\D", "", moment))
    return SystemName("Blackboard", users=users, serial=serial, submitted_at=_iso(moment), rest=match["rest"] or "")


def _moodle(name: str) -> SystemName | None:
    match = _MOODLE.fullmatch(name)
    if not match:
        return None
    number, full_name = match["number"] or "", match["name"]
    own_name = full_name.rpartition("-")[2]  # Moodle puts a group's name before it
    blind = f"{own_name} {number}" if PARTICIPANT.fullmatch(f"{own_name} {number}") else ""
    return SystemName("Moodle", full_name, number=number, anonymous=blind, rest=match["rest"])


def _brightspace(name: str) -> SystemName | None:
    match = _BRIGHTSPACE.fullmatch(name)
    if not match:
        return None
    moment = _brightspace_date(match["date"])
    serial = int(re.sub(r"\D", "", moment)[:12] or 0)
    rest = match["rest"] or ""
    return SystemName(
        "Brightspace", match["name"], serial=serial, submitted_at=moment, has_time=bool(moment), rest=rest
    )


def _sakai(name: str) -> SystemName | None:
    match = _SAKAI.fullmatch(name)
    return match and SystemName("Sakai", f"{match['last']}, {match['first']}".strip(" ,"), (match["user"],))


def _ilias(name: str) -> SystemName | None:
    match = _ILIAS.fullmatch(name)
    return match and SystemName("ILIAS", f"{match['last']}, {match['first']}", (match["user"],), match["number"])


def _canvas(name: str) -> SystemName | None:
    match = _CANVAS.fullmatch(name)
    if not match:
        return None
    longer = _CANVAS_NAME.match(name)
    return SystemName(
        "Canvas",
        match["name"] or "",
        (longer[1],) if longer and match["rest"] else (),
        match["number"] or "",
        anonymous=f"anon_{match['anonymous']}" if match["anonymous"] else "",
        serial=int((match["attachment"] or "0")[-18:]),
        late=bool(match["late"] or match["late_1"] or match["late_2"]),
        has_time=False,
        rest=re.sub(r"^\d+_", "", match["rest"] or "") if longer else match["rest"] or "",
    )


def _brightspace_date(text: str) -> str:
    """Returns ISO 8601 of 'Sep 24, 2024 926 PM' or '24 September, 2024 2126', or '' in another language."""
    match = _BRIGHTSPACE_DATE.fullmatch(text)
    name = (match["month"] or match["month_last"]).lower() if match else ""
    if not match or name not in _MONTHS:
        return ""
    hour = int(match["hour"])
    if match["half"]:
        hour = hour % 12 + 12 * (match["half"].upper() == "P")
    day = int(match["day"] or match["day_first"])
    return _iso(f"{match['year']}-{_MONTHS.index(name) + 1:02}-{day:02} {hour:02}:{match['minute']}")


def sakai_time(text: str) -> str:
    """Returns ISO 8601 of Sakai's timestamp.txt, 20261130182205123; '' for another text."""
    match = re.fullmatch(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)\d*", text.strip(), re.ASCII)
    return _iso("{}-{}-{} {}:{}:{}".format(*match.groups())) if match else ""


def _iso(moment: str) -> str:
    """Returns a time of this machine's zone as ISO 8601, or '' if there is no such time."""
    try:
        return parse_time(moment).isoformat()
    except UserError:
        return ""


_READERS = (_blackboard, _moodle, _canvas, _brightspace, _sakai)
