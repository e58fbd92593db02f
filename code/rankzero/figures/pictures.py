"""Pictures: the committed SVG files of the figures, written again when what they were drawn from has changed."""

import functools
import hashlib
import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from rankzero.atomic_write import write_atomically
from rankzero.curriculum import ROOT
from rankzero.figures import themes
from rankzero.figures.figure import PageFigure
from rankzero.figures.style import settings

HERE = Path(__file__).parent
MEASUREMENTS = ROOT / "handbook" / "measurements"
_MATPLOTLIB = version("matplotlib")
_MARK = re.compile(r"<!-- drawn from ([0-9a-f]{12}) -->\n")


def write_pictures(figure: PageFigure) -> list[Path]:
    """Draws a figure in both themes and returns the files that changed."""
    svg = f"<!-- drawn from {digest(figure)} -->\n{themes.light(figure)}"
    texts = {figure.file("light"): svg, figure.file("dark"): themes.dark(svg)}
    changed = [file for file, text in texts.items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    for file in changed:
        write_atomically(file, texts[file])
    return changed


def bitmap(figure: PageFigure, folder: Path) -> Path:
    """Draws a figure as FOLDER/NAME.png on white, to look at, and returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{figure.name}.png"
    with settings():
        figure.draw().savefig(file, dpi=130, facecolor="white")
    return file


def is_stale(figure: PageFigure) -> bool:
    """Returns whether a picture is missing or was drawn from other code or measurements."""
    now = digest(figure)
    return any(drawn_from(figure.file(theme)) != now for theme in ("light", "dark"))


def drawn_from(file: Path) -> str:
    """Returns the digest in a picture's first line, or "" without one."""
    match = _MARK.match(file.read_text(encoding="utf-8")) if file.exists() else None
    return match[1] if match else ""


def digest(figure: PageFigure) -> str:
    """Returns 12 hexadecimal digits that change with the figure's file, the data that it names, and this folder.

    The data are measurements of claims and recorded runs.

    A change of the library that a figure uses, such as the ledger, changes no digest: the tests draw every figure.
    """
    source = figure.source.read_text(encoding="utf-8")
    room = [(HERE / name).read_text(encoding="utf-8") for name in ("style.py", "shapes.py", "charts.py", "themes.py")]
    claims = [f"{slug} {text}" for slug, text in _measured() if f'"{slug}"' in source]
    parts = [_MATPLOTLIB, source, *room, *claims, *_recorded(source)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _recorded(source: str) -> Iterator[str]:
    """Yields the recorded runs of each lab whose number a figure's file names, if it reads recorded runs."""
    if "recorded_runs" in source:
        for number in sorted(set(re.findall(r'"(\d\d)"', source))):
            for file in sorted(ROOT.glob(f"code/lab-{number}-*/recorded/*.txt")):
                yield file.read_text(encoding="utf-8")


def unused_pictures(figures: dict[str, PageFigure]) -> list[Path]:
    """Returns the files in the folders of pictures that no figure draws."""
    drawn = {figure.file(theme) for figure in figures.values() for theme in ("light", "dark")}
    return [file for file in _files() if file not in drawn]


def _files() -> Iterator[Path]:
    for folder in (ROOT, ROOT / "handbook", ROOT / "labs"):
        yield from sorted((folder / "pictures").glob("*"))


def _measured() -> Iterator[tuple[str, str]]:
    """Yields each measured claim's slug with its value and chart as text."""
    for file in sorted(MEASUREMENTS.glob("*.json")):
        yield from _measured_in(file, file.stat().st_mtime_ns)


@functools.cache
def _measured_in(file: Path, changed_ns: int) -> list[tuple[str, str]]:
    """Returns the slugs and texts of one file as it was at `changed_ns`."""
    measured = json.loads(file.read_text(encoding="utf-8"))
    return [(slug, json.dumps([fields["measured"], fields.get("chart")])) for slug, fields in measured.items()]
