"""Code pages: each submission's source with a link target per line, and pairs of similar submissions side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import find_lab
from rankzero.grading.grade import Grade
from rankzero.grading.report.html_pages import code_page, render
from rankzero.grading.scan.code_similarity import PUBLISHED, shapes

MAX_LINES, MAX_COLUMNS = 4000, 400  # of a submission that are shown
PUBLISHED_NAME = "the published solution"


def write_code_pages(grades: Sequence[Grade], out: Path) -> set[Path]:
    """Writes the pages of all submissions and of the pairs that a flag names. Returns their files."""
    by_student = {(grade.submission.lab, grade.submission.student.student_id): grade for grade in grades}
    written = set()
    for (lab, _), grade in by_student.items():
        if (source := _source(grade)) is None:
            continue
        pages = {code_page(grade): [_column(_shown_name(grade), source, range(1, MAX_LINES + 1))]}
        for partner in dict.fromkeys(partner for flag in grade.flags for partner in flag.partners):
            other = by_student.get((lab, partner))
            other_source = find_lab(lab).reference.read_bytes() if partner == PUBLISHED else other and _source(other)
            if other_source:
                name = _shown_name(other) if other and partner != PUBLISHED else PUBLISHED_NAME
                pages[code_page(grade, partner)] = _side_by_side((_shown_name(grade), source), (name, other_source))
        for path, columns in pages.items():
            title = f"Lab {lab}: {' and '.join(str(column['name']) for column in columns)}"
            write_atomically(out / path, render("code.html", [grade], columns=columns, heading=title))
            written.add(out / path)
    return written


def _shown_name(grade: Grade) -> str:
    student = grade.submission.student
    return student.full_name or student.student_id


def _source(grade: Grade) -> bytes | None:
    file = grade.submission.file
    return file.read_bytes() if file and file.is_file() else None


def _side_by_side(*submissions: tuple[str, bytes]) -> list[Mapping[str, object]]:
    """Returns a column per submission, with the functions that both have in the same form."""
    forms = [shapes(source) for _, source in submissions]
    shared = {shape.digest for shape in forms[0].values()} & {shape.digest for shape in forms[1].values()}
    columns = []
    for (name, source), own in zip(submissions, forms, strict=True):
        in_order = sorted((shape for shape in own.values() if shape.digest in shared), key=lambda shape: shape.digest)
        numbers = [number for shape in in_order for number in range(shape.line, shape.last_line + 1)]
        columns.append(_column(name, source, numbers))
    return columns


def _column(name: str, source: bytes, numbers: Sequence[int]) -> Mapping[str, object]:
    lines = source.decode("utf-8", errors="replace").splitlines()
    shown = [(number, lines[number - 1][:MAX_COLUMNS]) for number in numbers[:MAX_LINES] if number <= len(lines)]
    return {"name": name, "lines": shown}
