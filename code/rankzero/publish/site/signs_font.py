"""Font of signs: the glyphs of DejaVu Sans Mono for signs that the other fonts lack, such as √ and ₁.

A page must not depend on the reader's fonts. matplotlib has the whole font; the site gets the glyphs of the
signs that its files contain.
"""

import logging
from pathlib import Path

import matplotlib
from fontTools import subset
from sphinx.application import Sphinx

from rankzero.curriculum import ROOT

FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"
FILE = "fonts/signs.woff"  # site.css loads it
# site.css has the same ranges, so that a page without such a sign does not load the font.
RANGES = ((0x300, 0x3FF), (0x1D2C, 0x1D6A), (0x2016, 0x2016), (0x2070, 0x209F), (0x2190, 0x27BF))
FOLDERS = ("handbook", "labs", "code", "solutions", "notebooks", "tests", "launch", "benchmarks")
SUFFIXES = (".md", ".py", ".ipynb", ".txt", ".diff", ".html", ".js", ".css", ".toml", ".yaml", ".sh")


def signs() -> set[int]:
    """Returns the signs of the repository's files that are in RANGES, as code points."""
    files = [*ROOT.glob("*.md"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.*"))]
    texts = (file.read_text(encoding="utf-8", errors="ignore") for file in files if file.suffix in SUFFIXES)
    points = {ord(character) for text in texts for character in set(text) if not character.isascii()}
    return {point for point in points if any(first <= point <= last for first, last in RANGES)}


def write(file: Path) -> None:
    """Writes the font with the glyphs of `signs`."""
    logging.getLogger("fontTools").setLevel(logging.ERROR)  # below it, fontTools reports each table
    options = subset.Options(flavor="woff", hinting=False)
    font = subset.load_font(str(FONT), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=signs())
    subsetter.subset(font)
    file.parent.mkdir(parents=True, exist_ok=True)
    subset.save_font(font, str(file), options)


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.outdir) / "_static" / FILE))
