"""ARCHITECTURE.md and the library agree: every room has a row, and no room imports what its row leaves out."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankzero.curriculum import ROOT

LIBRARY = ROOT / "code" / "rankzero"
ROOMS = sorted(entry.stem for entry in LIBRARY.iterdir() if not entry.name.startswith("__"))


def allowed_imports() -> dict[str, set[str]]:
    """Returns each room's allowed imports, from the table of ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.split("## Allowed imports")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| .* \| ([\w, ]+) \|$", section, re.MULTILINE)
    listed = {room: set(re.findall(r"\w+", cell)) - {"nothing"} for room, cell in rows}
    return {room: set(listed) - {room} if cell == {"all"} else cell | {"atomic_write"} for room, cell in listed.items()}


def imported_rooms(room: str) -> Iterator[tuple[str, str]]:
    """Yields each import of another room: the other room's name, and file:line."""
    files = [LIBRARY / f"{room}.py"] if (LIBRARY / f"{room}.py").exists() else (LIBRARY / room).rglob("*.py")
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for module in _modules(node):
                other = module.removeprefix("rankzero.").split(".")[0]
                if module.startswith("rankzero.") and other != room:
                    yield other, f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [
            f"{node.module}.{alias.name}" if node.module == "rankzero" else f"{node.module}" for alias in node.names
        ]
    return []


def test_every_room_has_a_row() -> None:
    assert sorted(allowed_imports()) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_what_its_row_allows(room: str) -> None:
    allowed = allowed_imports()[room]
    assert [place for other, place in imported_rooms(room) if other not in allowed] == []


def test_the_docstring_of_every_file_begins_with_its_subject() -> None:
    for file in LIBRARY.rglob("*.py"):
        first_line = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n")[0]
        assert first_line.endswith((".", ":")), f"{file}: the first line is no sentence: {first_line!r}"
        headless = re.match(r"(What|Whose|Whoever|Which|How|Where|Who|When)\b", first_line)
        assert headless is None, f"{file}: the first line has no subject: {first_line!r}"


def paths_of_the_map() -> list[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## Every file")[0]
    named = re.findall(r"`((?:[\w-]+/)+(?:[\w-]+\.py)?)`", text)
    return [path for path in named if "NN" not in path]


@pytest.mark.parametrize("path", sorted(set(paths_of_the_map())))
def test_a_path_of_the_map_exists(path: str) -> None:
    roots = (ROOT, LIBRARY)
    assert any((Path(root) / path).exists() for root in roots), path
