"""Figures: each committed picture is what its code draws, stands on its page, and can be read in both themes."""

import html
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from picture_texts import contrasts_of_words
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
WORDS = re.compile(r">([^<]*)</(?:text|tspan)>")


def words_of(svg: str) -> list[str]:
    """Returns the words of a picture in the order in which they are painted."""
    return [html.unescape(words) for words in WORDS.findall(svg) if words.strip()]


def same_picture(one: str, other: str) -> bool:
    """Tells whether two pictures differ at most in the last digit of places, which another processor rounds."""
    if words_of(one) != words_of(other):
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


# Drawn in `make test`; of the other pictures it compares the digests of their sources.
DRAWN = ("training_loop", "distributed_data_parallel", "for_instructors")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            source,
            id=f"{source.parent.name}-{source.stem}",
            marks=[] if source.stem in DRAWN else [pytest.mark.prove],
        )
        for source in SOURCES
    ],
)
def test_each_committed_picture_is_what_its_code_draws(source: Path) -> None:
    for drawn in figures_of(source):
        light, dark = (drawn.file(theme).read_text(encoding="utf-8") for theme in ("light", "dark"))
        svg = themes.drawn(drawn)
        again = themes.tidied(drawn.name, svg)
        assert same_picture(light.partition("\n")[2], again), f"run `rankzero figures {drawn.name}`"
        assert dark == themes.dark(light)
        assert words_of(again) == words_of(svg), f"{drawn.name}: the words are not those that were drawn"


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
    lacks = {
        name: lack
        for page in sorted((*(ROOT / "handbook").glob("*.md"), *(ROOT / "labs").glob("*.md")))
        if (name := str(page.relative_to(ROOT))) not in EXCEPTIONS
        and (lack := figure_blocks.missing_figures(page.read_text(encoding="utf-8")))
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
    assert figure_blocks.missing_figures(page) == lack


def test_captions_are_sentences_and_descriptions_say_what_is_seen() -> None:
    for drawn in all_figures().values():
        assert re.search(r"[.?!)]$", drawn.caption), f"{drawn.name}: a caption is a sentence"
        assert len(drawn.description) > 60, f"{drawn.name}: the description must replace the picture"
        assert "\n" not in drawn.caption + drawn.description


def test_words_in_pictures_are_large_enough_to_read() -> None:
    for drawn in all_figures().values():
        sizes = re.findall(r"<text [^>]*font-size: ([\d.]+)px", drawn.file("light").read_text(encoding="utf-8"))
        assert all(float(size) >= 8.5 for size in sizes), drawn.name


@pytest.mark.parametrize(("theme", "paper"), [("light", style.PAPER), ("dark", style.DARK[style.PAPER])])
def test_words_in_pictures_have_enough_contrast(theme: str, paper: str) -> None:
    """4.5 is WCAG's limit for text of this size."""
    faint = {
        f"{drawn.name}: {word}": round(ratio, 1)
        for drawn in all_figures().values()
        for word, ratio in contrasts_of_words(drawn.file(theme).read_text(encoding="utf-8"), paper).items()
        if ratio < 4.5
    }
    assert faint == {}


SQUARE = '<path d="M 10 10\nL 90 10\nL 90 40\nL 10 40\nz\n" style="fill: {}"/>'
DISC = '<defs><path id="disc" d="M 0 -9\nC 12 -9 12 9 0 9\nC -12 9 -12 -9 0 -9\nz\n" style="stroke: #1f2328"/></defs>'
CLIP = '<defs><clipPath id="axes"><rect x="0" y="0" width="40" height="50"/></clipPath></defs>'
WORDS_AT = '<text style="font-size: 10px; text-anchor: middle; fill: {}" x="{}" y="28">words</text>'
TSPAN = '<tspan x="0" y="0" style="font-size: 10px; fill: {}">words</tspan>'
FORMULA = f'<g transform="translate(40 28)"><text>{TSPAN}</text></g>'
UPRIGHT = '<text style="font-size: 10px; fill: {}" transform="translate({} 38) rotate(-90)">words</text>'


def contrast_of_words(*parts: str) -> float:
    """The contrast of `words` in a picture of these parts, on white paper."""
    namespaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return contrasts_of_words(f"<svg {namespaces}>{''.join(parts)}</svg>", style.PAPER)["words"]


ON_SKY = SQUARE.format(style.SKY)


@pytest.mark.parametrize(
    "parts",
    [
        (WORDS_AT.format(style.GRAY, 150),),
        (ON_SKY, WORDS_AT.format(style.PAPER, 50)),
        (ON_SKY, WORDS_AT.format(style.PAPER, 150)),
        (ON_SKY, WORDS_AT.format(style.WORDS[style.ORANGE], 50)),
        (SQUARE.format(style.BLUE), WORDS_AT.format(style.PAPER, 84)),  # the last letters stand beside the square
        (WORDS_AT.format(style.INK, 50), ON_SKY),  # covered
        (SQUARE.format(f"{style.INK}; fill-opacity: 0.6"), WORDS_AT.format(style.INK, 50)),
        (SQUARE.format(f"{style.INK}; opacity: 0.6"), WORDS_AT.format(style.INK, 50)),
        (ON_SKY, FORMULA.format(style.PAPER)),
        (ON_SKY, UPRIGHT.format(style.PAPER, 50)),
        (DISC, f'<use xlink:href="#disc" x="50" y="25" style="fill: {style.SKY}"/>', WORDS_AT.format(style.PAPER, 50)),
        (ON_SKY, WORDS_AT.format(style.GRAY, 50).replace("<text", '<text class="outlined"')),
    ],
)
def test_faint_words_are_found(parts: tuple[str, ...]) -> None:
    assert contrast_of_words(*parts) < 4.5


@pytest.mark.parametrize(
    "parts",
    [
        (WORDS_AT.format(style.MUTED, 50),),
        (ON_SKY, WORDS_AT.format(style.ON_BRIGHT, 50)),
        (ON_SKY, SQUARE.format(style.BLUE), WORDS_AT.format(style.PAPER, 50)),  # the upper square counts
        (ON_SKY, WORDS_AT.format(style.MUTED, 150)),
        (ON_SKY, UPRIGHT.format(style.MUTED, 150)),
        (SQUARE.format(f"{style.SKY}; fill-opacity: 0.1"), WORDS_AT.format(style.MUTED, 50)),
        (SQUARE.format("none; stroke: #1f2328"), WORDS_AT.format(style.INK, 50)),
        (CLIP, f'<g clip-path="url(#axes)">{SQUARE.format(style.INK)}</g>', WORDS_AT.format(style.INK, 65)),
        (SQUARE.format(style.INK), WORDS_AT.format(style.INK, 50).replace("<text", '<text class="outlined"')),
    ],
)
def test_words_that_can_be_read_are_not_found(parts: tuple[str, ...]) -> None:
    assert contrast_of_words(*parts) >= 4.5


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


def test_a_narrow_picture_keeps_its_scale_on_the_page_and_the_site() -> None:
    drawn = all_figures()["hybrid-two-by-four"]
    page = (ROOT / drawn.page).read_text(encoding="utf-8")
    assert f'src="pictures/{drawn.name}.svg" width="495"' in page, "720 pixels are 518 points"
    assert "data-narrow" in themes.inline(drawn.file("light").read_text(encoding="utf-8"), "boxes")
    wide = all_figures()["who-holds-what"]
    assert f'src="pictures/{wide.name}.svg" width="720"' in page
    assert "data-narrow" not in themes.inline(wide.file("light").read_text(encoding="utf-8"), "strips")


def test_a_mistyped_figure_or_page_gets_one_sentence() -> None:
    wrong = CliRunner().invoke(app, ["figures", "no-such-figure"])
    assert wrong.exit_code == 2
    assert "there is no figure 'no-such-figure': use one of" in wrong.output.replace("\n", " ")
    assert "no figure is on a page 'no-page'" in CliRunner().invoke(app, ["figures", "--page", "no-page"]).output
