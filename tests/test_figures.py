"""Figures: each committed picture is what its code draws, stands on its page, and can be read in both themes."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from rankzero.cli.app import app
from rankzero.curriculum import ROOT, all_labs
from rankzero.errors import UserError
from rankzero.figures import style, themes
from rankzero.figures.figure import PageFigure
from rankzero.figures.pictures import unused_pictures
from rankzero.figures.registry import all_figures
from rankzero.publish import figure_blocks

SOURCES = [
    *sorted((ROOT / "handbook" / "figures").glob("*.py")),
    *(lab.figures for lab in all_labs() if lab.figures.exists()),
]
REPEATED = {("README.md", "lab-02-first-run")}  # the first command's picture
OPENING = re.compile(r"<!-- figure: ([\w-]+) -->")


HASH = re.compile(r"(?<=[\"#])[a-z]+[0-9a-f]{10}\b")  # names of parts of a picture, made of its coordinates
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
WORDS = re.compile(r">([^<]*)</text>")


def same_picture(one: str, other: str) -> bool:
    """Tells whether two pictures differ at most in the last digit of places, which another processor rounds."""
    if WORDS.findall(one) != WORDS.findall(other):
        return False
    one, other = HASH.sub("", one), HASH.sub("", other)
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=False)
    return NUMBER.sub("", one) == NUMBER.sub("", other) and all(abs(float(a) - float(b)) < 0.02 for a, b in pairs)


def test_pictures_are_the_same_up_to_the_last_digit() -> None:
    picture = '<path id="m0123456789" d="M 1.25 -3.5"/><text>0.999</text>'
    assert same_picture(picture, picture.replace("1.25", "1.26").replace("m01234", "mabcde"))
    for old, new in (("1.25", "1.35"), ("text", "tspan"), ("-3.5", "-3.5 4.5"), ("0.999", "0.998")):
        assert not same_picture(picture, picture.replace(old, new))


def figures_of(source: Path) -> list[PageFigure]:
    return [figure for figure in all_figures().values() if figure.source == source]


# Drawing the chapter on memory measures whole steps of GPT-2; `make test` compares the digest of its sources.
PROVEN = {ROOT / "handbook" / "figures" / "memory.py"}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(source, id=f"{source.parent.name}-{source.stem}", marks=[pytest.mark.prove] * (source in PROVEN))
        for source in SOURCES
    ],
)
def test_each_committed_picture_is_what_its_code_draws(source: Path) -> None:
    for drawn in figures_of(source):
        light, dark = (drawn.file(theme).read_text(encoding="utf-8") for theme in ("light", "dark"))
        assert same_picture(light.partition("\n")[2], themes.light(drawn)), f"run `rankzero figures {drawn.name}`"
        assert dark == themes.dark(light)


def test_a_style_that_the_process_has_set_changes_no_picture() -> None:
    def draw() -> Figure:
        drawing, axes = style.new_figure()
        axes.plot([0, 1])
        axes.text(0, 0, "words")
        return drawing

    figure = PageFigure("words", "handbook/memory.md", "A caption.", "A description", draw)
    alone = themes.light(figure)
    with plt.style.context("ggplot"):
        assert themes.light(figure) == alone


def test_each_figure_is_on_its_page_once_and_no_page_names_another() -> None:
    pages = [*(ROOT / "handbook").glob("*.md"), *(ROOT / "labs").glob("*.md"), ROOT / "README.md"]
    placed = [(str(page.relative_to(ROOT)), name) for page in pages for name in OPENING.findall(page.read_text())]
    assert sorted(set(placed) - REPEATED) == sorted((drawn.page, drawn.name) for drawn in all_figures().values())
    assert len(set(placed)) == len(placed)
    assert unused_pictures(all_figures()) == []


EXCEPTIONS = {"handbook/claims.md", "handbook/README.md"}  # a generated table; the contents page with its map


def test_each_page_has_two_figures_and_one_near_its_top() -> None:
    chapters = dict.fromkeys((ROOT / "handbook").glob("*.md"), figure_blocks.CHAPTER)
    sections = chapters | dict.fromkeys((ROOT / "labs").glob("*.md"), figure_blocks.LAB_PAGE)
    lacks = {
        name: lack
        for page, section in sorted(sections.items())
        if (name := str(page.relative_to(ROOT))) not in EXCEPTIONS
        and (lack := figure_blocks.missing_figures(page.read_text(encoding="utf-8"), section))
    }
    assert lacks == {}


FIGURE = "<!-- figure: a -->\n<!-- /figure -->\n"


@pytest.mark.parametrize(
    ("page", "lack"),
    [
        (f"{FIGURE}## One\n{FIGURE}## Two\n", ""),
        (f"## One\n{FIGURE}{FIGURE}## Two\n", ""),
        (f"## One\n```mermaid\n```\n## Two\n{FIGURE}{FIGURE}", ""),
        (f"{FIGURE}## One\n```mermaid\n```\n## Two\n", "has 1 of the 2 figures that a page needs"),
        (f"{FIGURE}## One\n## Two\n", "has 1 of the 2 figures that a page needs"),
        (f"## One\n## Two\n{FIGURE}{FIGURE}", "has no figure before its section 'Two'"),
        (f"## One\n```text\n{FIGURE}{FIGURE}```\n## Two\n", "has 0 of the 2 figures that a page needs"),
    ],
)
def test_a_page_that_lacks_a_figure_is_told_which(page: str, lack: str) -> None:
    assert figure_blocks.missing_figures(page, figure_blocks.CHAPTER) == lack


def test_captions_are_sentences_and_descriptions_say_what_is_seen() -> None:
    for drawn in all_figures().values():
        assert re.search(r"[.?!)]$", drawn.caption), f"{drawn.name}: a caption is a sentence"
        assert len(drawn.description) > 60, f"{drawn.name}: the description must replace the picture"
        assert "\n" not in drawn.caption + drawn.description


def test_words_in_pictures_are_large_enough_to_read() -> None:
    for drawn in all_figures().values():
        sizes = re.findall(r"<text [^>]*font-size: ([\d.]+)px", drawn.file("light").read_text(encoding="utf-8"))
        assert all(float(size) >= 8.5 for size in sizes), drawn.name


def contrast(color: str, paper: str) -> float:
    """The ratio of contrast that WCAG defines, from 1 to 21."""
    light = []
    for name in (color, paper):
        shares = [byte / 255 for byte in bytes.fromhex(name[1:])]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        light.append(sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)))
    return (max(light) + 0.05) / (min(light) + 0.05)


ON_DARK_AREAS = {style.PAPER, style.PANEL}  # colors of words that stand on an area of a dark color


@pytest.mark.parametrize(("theme", "paper"), [("light", style.PAPER), ("dark", style.DARK[style.PAPER])])
def test_words_in_pictures_have_enough_contrast(theme: str, paper: str) -> None:
    """4.5 is WCAG's limit for text of this size."""
    exempt = ON_DARK_AREAS if theme == "light" else {style.DARK[c] for c in (*ON_DARK_AREAS, style.ON_BRIGHT)}
    for drawn in all_figures().values():
        words = re.findall(r"<text [^>]*fill: (#\w{6})", drawn.file(theme).read_text(encoding="utf-8"))
        faint = {color for color in set(words) - exempt if contrast(color, paper) < 4.5}
        assert not faint, drawn.name


def test_a_color_without_a_dark_twin_is_refused_by_name() -> None:
    def draw() -> Figure:
        drawing, axes = style.new_figure()
        axes.plot([0, 1], color="#123456")
        return drawing

    with pytest.raises(UserError, match="figure stranger: #123456 is no color of"):
        themes.light(PageFigure("stranger", "handbook/memory.md", "A caption.", "A description", draw))


def test_words_in_a_picture_keep_their_digits() -> None:
    def draw() -> Figure:
        drawing, axes = style.new_figure()
        axes.plot([0.001, 0.999], [0, 1])
        axes.set_xticks([0.001, 0.999])
        axes.set_title("β₂ = 0.999")
        return drawing

    svg = themes.light(PageFigure("digits", "handbook/memory.md", "A caption.", "A description", draw))
    assert [word for word in ("β₂ = 0.999", "0.001", "0.999") if f">{word}</text>" not in svg] == []
    assert not re.search(r' d="[^"]*\.\d{3}', svg), "coordinates are short"


def test_an_inline_picture_takes_its_colors_from_the_page_and_is_described() -> None:
    drawn = next(iter(all_figures().values()))
    svg = themes.inline(drawn.file("light").read_text(encoding="utf-8"), 'bars, "stacked" & <high>')
    assert 'role="img" aria-label="bars, &quot;stacked&quot; &amp; &lt;high>"' in svg
    assert not re.search(r"#[0-9a-f]{6}\b", svg)
    used = set(re.findall(r"var\((--figure-\w+)\)", svg))
    assert used
    assert all(f"{name}:" in themes.variables() for name in used)


def test_a_mistyped_figure_or_page_gets_one_sentence() -> None:
    wrong = CliRunner().invoke(app, ["figures", "no-such-figure"])
    assert wrong.exit_code == 2
    assert "there is no figure 'no-such-figure': use one of" in wrong.output.replace("\n", " ")
    assert "no figure is on a page 'no-page'" in CliRunner().invoke(app, ["figures", "--page", "no-page"]).output
