"""Figures: each committed picture is what its code draws, stands on its page, and can be read in both themes."""

import re
from pathlib import Path

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

SOURCES = [
    *sorted((ROOT / "handbook" / "figures").glob("*.py")),
    *(file for lab in all_labs() if (file := lab.checks.parent / "figures.py").exists()),
]
OPENING = re.compile(r"<!-- figure: ([\w-]+) -->")


def figures_of(source: Path) -> list[PageFigure]:
    return [figure for figure in all_figures().values() if figure.source == source]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.parent.name}-{source.stem}")
def test_each_committed_picture_is_what_its_code_draws(source: Path) -> None:
    for drawn in figures_of(source):
        light, dark = (drawn.file(theme).read_text(encoding="utf-8") for theme in ("light", "dark"))
        assert light.partition("\n")[2] == themes.light(drawn), f"run `rankzero figures {drawn.name}`"
        assert dark == themes.dark(light)


def test_each_figure_is_on_its_page_once_and_no_page_names_another() -> None:
    pages = [*(ROOT / "handbook").glob("*.md"), *(ROOT / "labs").glob("*.md"), ROOT / "README.md"]
    placed = sorted((str(page.relative_to(ROOT)), name) for page in pages for name in OPENING.findall(page.read_text()))
    assert placed == sorted((drawn.page, drawn.name) for drawn in all_figures().values())
    assert unused_pictures(all_figures()) == []


def test_captions_are_sentences_and_descriptions_say_what_is_seen() -> None:
    for drawn in all_figures().values():
        assert re.search(r"[.?!)]$", drawn.caption), f"{drawn.name}: a caption is a sentence"
        assert len(drawn.description) > 60, f"{drawn.name}: the description must replace the picture"
        assert "\n" not in drawn.caption + drawn.description


def test_words_in_pictures_are_large_enough_to_read() -> None:
    for drawn in all_figures().values():
        sizes = re.findall(r"<text [^>]*font-size: ([\d.]+)px", drawn.file("light").read_text(encoding="utf-8"))
        assert all(float(size) >= 8.5 for size in sizes), drawn.name


def test_a_color_without_a_dark_twin_is_refused_by_name() -> None:
    def draw() -> Figure:
        drawing, axes = style.new_figure()
        axes.plot([0, 1], color="#123456")
        return drawing

    with pytest.raises(UserError, match="figure stranger: #123456 is no color of"):
        themes.light(PageFigure("stranger", "handbook/memory.md", "A caption.", "A description", draw))


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
