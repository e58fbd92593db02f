"""Page names: each page's path on the site, without suffix, and the titles and the order of chapters.

All other modules of the site may import this module; it imports none of them.
"""

import re
from pathlib import Path

from rankzero.curriculum import ROOT, Lab

FRONT = "README"


def name_of(file: Path) -> str:
    """Returns the page name that Sphinx gives a markdown file or notebook: its path in the repository, no suffix."""
    return str(file.relative_to(ROOT).with_suffix(""))


def source_page(file: Path) -> str:
    """Returns the name of the page that shows a source file."""
    return f"source/{file.resolve().relative_to(ROOT)}"


def side_by_side_page(lab: Lab, chapter: Path) -> str:
    """Returns the name of the page that shows a lab beside one of its chapters."""
    return f"read/lab-{lab.number}-{chapter.stem}"


def title_of(file: Path) -> str:
    """Returns the first heading of a markdown file."""
    return next(line[2:].strip() for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("# "))


def chapters() -> list[Path]:
    """Returns the handbook's files in the order of `handbook/README.md`; files that it leaves out come last."""
    folder = ROOT / "handbook"
    listed = re.findall(r"\(([\w-]+\.md)[)#]", (folder / "README.md").read_text(encoding="utf-8"))
    files = [folder / name for name in dict.fromkeys(listed)]
    return [*files, *sorted(set(folder.glob("*.md")) - {*files, folder / "README.md"})]
