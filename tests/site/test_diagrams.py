"""Every diagram is drawn and every picture has a description, in light and dark, on a desktop and on a phone."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tiers import sampled

from rankzero.curriculum import ROOT, all_labs
from rankzero.publish.site import chromium, npm_packages
from rankzero.publish.site.markdown import diagrams, plot_descriptions
from rankzero.publish.site.page_names import name_of

AXE = npm_packages.path("axe-core/axe.min.js")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("handbook/*.md"), *(lab.page for lab in all_labs())])
FENCE = re.compile(r"^```mermaid$", re.MULTILINE)
DIAGRAMS = [page for page in PAGES if FENCE.search(page.read_text("utf-8"))]
LOOKS = [(page, width, theme) for page in DIAGRAMS for width, theme in ((1440, "light"), (390, "dark"))]
CHAPTER = ROOT / "handbook/training-loop.md"
LEGIBLE = 0.75  # smallest scale at which a diagram's text of 13 px can be read
SCALE = 'picture => picture.getBoundingClientRect().width / Number(picture.getAttribute("width"))'


def pages_with(site: Path, text: str) -> list[Path]:
    files = [file for file in sorted(site.rglob("*.html")) if text in file.read_text("utf-8")]
    assert files
    return files


def file_of(site: Path, source: Path) -> Path:
    return site / ("index.html" if source == ROOT / "README.md" else f"{name_of(source)}.html")


@pytest.mark.parametrize(
    ("source", "width", "theme"), sampled(LOOKS, {(CHAPTER, 1440, "light"), (CHAPTER, 390, "dark")})
)
def test_every_diagram_of_a_page_is_drawn_and_has_a_name(
    site: Path, page: Page, source: Path, width: int, theme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.goto(file_of(site, source).as_uri())
    figures = page.locator("figure.diagram")
    expect(figures).to_have_count(len(FENCE.findall(source.read_text("utf-8"))))
    for figure in figures.all():
        picture = figure.get_by_role("img")
        expect(picture).to_have_accessible_name(re.compile(r"\w{2,}.* \w+"))
        expect(picture).to_have_accessible_description(re.compile(r"\w+ .{30}"))
        expect(figure.locator("pre")).to_have_count(0)
        assert picture.evaluate(SCALE) >= LEGIBLE
    page.add_script_tag(path=AXE)
    rules = {"runOnly": ["svg-img-alt", "scrollable-region-focusable", "color-contrast"], "preload": False}
    violations = page.evaluate("rules => axe.run('figure.diagram', rules)", rules)["violations"]
    assert not [violation["nodes"][0]["failureSummary"] for violation in violations]


def test_a_diagram_follows_the_theme(site: Path, page: Page) -> None:
    page.goto((site / "handbook" / "optimizers.html").as_uri())
    box = page.locator("figure.diagram svg:visible .node rect").first
    colors = []
    for theme in ("light", "dark", "light"):
        page.evaluate("theme => { document.body.dataset.theme = theme }", theme)
        paper = page.evaluate("() => getComputedStyle(document.querySelector('.sidebar-drawer')).backgroundColor")
        expect(box).to_have_css("fill", paper)
        colors.append(paper)
    assert colors[0] == colors[2] != colors[1]


def test_a_diagram_has_another_picture_for_another_width(site: Path, page: Page) -> None:
    """The diagram runs from left to right in a wide window, and from top to bottom on a phone."""
    page.goto((site / "handbook" / "training-loop.html").as_uri())
    picture = page.locator("figure.diagram svg:visible")
    wide = "svg => svg.viewBox.baseVal.width > svg.viewBox.baseVal.height"
    expect(picture).to_have_count(1)
    assert picture.evaluate(wide)
    page.set_viewport_size({"width": 390, "height": 844})
    expect(picture).to_have_count(1)
    assert not picture.evaluate(wide)


def test_a_diagram_beside_a_lab_has_its_colors_and_its_arrowheads(site: Path, page: Page) -> None:
    """The side-by-side page renames the ids of the chapter, and with them those that the picture refers to."""
    page.goto((site / "read" / "lab-02-training-loop.html").as_uri())
    picture = page.locator("#reader-left figure.diagram svg:visible").first
    expect(picture.locator(".node rect").first).to_have_css("stroke-width", "1px")
    missing = """svg => [...svg.querySelectorAll("[marker-end]")].filter(
        (edge) => !document.getElementById(edge.getAttribute("marker-end").slice(5, -1)))"""
    assert picture.locator("[marker-end]").count() > 1
    assert not picture.evaluate(missing)


def test_a_link_to_a_heading_below_a_diagram_keeps_the_heading_in_sight(site: Path, page: Page) -> None:
    page.goto((site / "handbook" / "regularization.html").as_uri() + "#dropout")
    expect(page.locator("figure.diagram svg:visible")).to_have_count(1)
    expect(page.get_by_role("heading", name="Dropout", exact=True)).to_be_in_viewport()


COVERED = """words => words.every((word) => {
  const [paper, text] = [word.previousElementSibling, word.getBBox()];
  if (!paper.matches(".message-paper")) return false;
  const [left, right] = [paper.x.baseVal.value, paper.x.baseVal.value + paper.width.baseVal.value];
  return left < text.x && text.x + text.width < right;
})"""


@pytest.mark.parametrize("width", [1440, 390])
def test_a_lifeline_does_not_cross_the_words_of_a_message(site: Path, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((site / "handbook" / "several-nodes.html").as_uri())
    words = page.locator("figure.diagram svg:visible .messageText")
    assert words.count() >= 9
    assert words.evaluate_all(COVERED)


def test_a_diagram_needs_no_script(site: Path, new_context: Callable[..., BrowserContext]) -> None:
    context = new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "handbook" / "optimizers.html").as_uri())
    expect(page.locator("figure.diagram svg:visible")).to_contain_text("running mean of g")
    expect(page.get_by_role("button", name="Search")).to_be_hidden()


def test_no_page_loads_mermaid(site: Path) -> None:
    assert not [file for file in site.rglob("*.html") if re.search(r"<script[^>]* src=[^>]*mermaid", file.read_text())]
    assert not list(site.rglob("mermaid*"))


def test_without_chromium_the_build_says_so_and_draws_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(diagrams, "DRAWN", tmp_path)
    monkeypatch.setattr(chromium, "executable", lambda: None)
    diagrams._drawer.cache_clear()
    assert diagrams.pictures("flowchart LR\n a --> b", tmp_path) is None
    assert diagrams.pictures("flowchart LR\n b --> a", tmp_path) is None
    assert capsys.readouterr().err.count("No Chromium was found") == 1
    diagrams._drawer.cache_clear()


def test_a_page_without_drawn_diagrams_draws_them(page: Page, tmp_path: Path) -> None:
    mermaid = npm_packages.path(npm_packages.MERMAID)
    scripts = [mermaid, diagrams.STATIC / "diagram-drawing.js", diagrams.STATIC / "diagrams.js"]
    source = "flowchart LR\n  accTitle: Two boxes\n  accDescr: An arrow from one to two.\n  a[one] --> b[two]"
    (tmp_path / "page.html").write_text(
        f'<!doctype html><link rel="stylesheet" href="{(diagrams.STATIC / "diagrams.css").as_uri()}">'
        f'<figure class="diagram flowchart"><pre hidden>{source.replace(">", "&gt;")}</pre></figure>'
        + "".join(f'<script defer src="{script.as_uri()}"></script>' for script in scripts),
        encoding="utf-8",
    )
    page.goto((tmp_path / "page.html").as_uri())
    expect(page.locator("figure.diagram svg:visible")).to_contain_text("two")
    expect(page.get_by_role("img", name="Two boxes")).to_be_visible()
    expect(page.locator("pre")).to_be_hidden()


SMALL_WORDS = """() => [...document.querySelectorAll("figure.drawn svg text")].filter((word) => {
  const { a, b } = word.getScreenCTM();
  return word.checkVisibility() && parseFloat(getComputedStyle(word).fontSize) * Math.hypot(a, b) < 8.5;
}).map((word) => word.textContent)"""


@pytest.mark.parametrize("source", sampled(PAGES, {CHAPTER, ROOT / "README.md"}), ids=lambda page: page.stem)
def test_words_of_drawn_figures_are_legible_on_a_phone(site: Path, page: Page, source: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(file_of(site, source).as_uri())
    assert page.evaluate(SMALL_WORDS) == []


class Images(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.attributes: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.attributes.append(dict(attrs))


def test_every_image_has_a_description_and_a_size(site: Path) -> None:
    images = Images()
    for file in pages_with(site, "<img"):
        images.feed(file.read_text("utf-8"))
    for image in images.attributes:
        assert re.search(r"\w+ \w+", image["alt"] or ""), image
        assert ".png" not in str(image["alt"])
        assert int(image["width"] or 0) > 100
    assert images.attributes


def test_the_description_of_a_plot_comes_from_its_cell() -> None:
    cell = """%matplotlib inline
axes.plot(whole, label="with state")
axes.plot(part, label=f"without {name}" if part else "nothing")
axes.set(xlabel="step", ylabel="loss (nats)", title="Two ways")
"""
    text = "Plot under “Go on”: “Two ways”, “loss (nats)” over “step”. It shows “with state”, “without …”, “nothing”."
    assert plot_descriptions.describe(cell, "3. Go on") == text
    phases = plot_descriptions.describe("plots.plot_phases(memory.rows)", "Memory")
    assert phases == "Plot under “Memory”: The MiB that a step holds after each phase: one stacked bar per phase."


def test_every_formula_is_rendered(site: Path, page: Page) -> None:
    """KaTeX gives a formula that it cannot parse the class katex-error."""
    for file in pages_with(site, 'class="katex"'):
        assert "katex-error" not in file.read_text("utf-8"), file
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((site / "handbook" / "optimizers.html").as_uri())
    formula = page.locator(".math-wrapper").first
    expect(formula).to_be_visible()
    assert formula.evaluate("element => element.getBoundingClientRect().right <= 390")
    assert page.evaluate(
        "() => [...document.fonts].some(font => font.family === 'KaTeX_Math' && font.status === 'loaded')"
    )


def test_no_page_shows_a_diagram_or_formula_as_code(site: Path) -> None:
    for file in site.rglob("*.html"):
        assert not re.search(r'class="highlight-(mermaid|math)', file.read_text("utf-8")), file
