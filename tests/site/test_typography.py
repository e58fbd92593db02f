"""Line breaks: none inside a date or a short option, and none between a number and its unit."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Page, expect

PAGES = ["handbook/errata", "handbook/engineering-tips", "labs/lab-04-gradient-accumulation", "handbook/claims"]
# Texts of the elements on more than one line: their boxes have different tops.
BROKEN = """elements => elements.filter((element) => {
  const tops = [...element.getClientRects()].map((box) => Math.round(box.top));
  return Math.max(...tops) - Math.min(...tops) > 4 && !element.closest("td");
}).map((element) => element.textContent)"""


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [1440, 390, 320])
def test_unbroken_parts_are_on_one_line(site: Path, page: Page, name: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((site / f"{name}.html").as_uri())
    unbroken = page.locator("article .unbroken")
    assert unbroken.count()
    assert unbroken.evaluate_all(BROKEN) == []


def test_dates_options_and_units_are_unbroken(site: Path, page: Page) -> None:
    page.goto((site / "labs" / "lab-04-gradient-accumulation.html").as_uri())
    texts = page.locator("article .unbroken").all_inner_texts()
    assert any(re.fullmatch(r"\d{4}-\d\d-\d\d", text) for text in texts)
    assert any(re.fullmatch(r"[a-z]+(_[a-z]*)+", text) for text in texts)
    prose = page.locator("article p, article li").all_text_contents()
    assert [text for text in prose if re.search(r"\d (GB|MiB|bytes|tokens)\b", text)] == []


def test_a_long_name_in_a_narrow_table_ends_its_lines_after_underscores(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto((site / "handbook" / "several-nodes.html").as_uri())
    name = page.locator("td code").filter(has_text=re.compile("^TORCH_ELASTIC_SHUTDOWN_TIMEOUT$"))
    expect(name.first).to_have_js_property("textContent", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")  # no extra characters
    table = page.locator(".table-wrapper", has=name).first
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") == 0


# Options of which the hyphens and the first letter are on different lines, and the number of all options.
PARTED_OPTIONS = """() => {
  const walker = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
  const parted = [];
  let count = 0;
  while (walker.nextNode()) {
    const text = walker.currentNode;
    if (!text.parentElement.closest("code, .line")) continue;
    for (const match of text.data.matchAll(/(?<![\\w-])--\\w/g)) {
      const range = document.createRange();
      range.setStart(text, match.index);
      range.setEnd(text, match.index + match[0].length);
      const tops = [...range.getClientRects()].map((box) => box.top);
      if (Math.max(...tops) - Math.min(...tops) > 4) parted.push(text.data);
      count += 1;
    }
  }
  return [parted, count];
}"""


@pytest.mark.parametrize("name", ["handbook/several-nodes", "labs/lab-07-ddp"])
def test_no_line_ends_after_the_hyphens_of_an_option(site: Path, page: Page, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto((site / f"{name}.html").as_uri())
    parted, count = page.evaluate(PARTED_OPTIONS)
    assert count
    assert not parted


def test_the_map_of_the_handbook_fits_a_phone(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto((site / "handbook" / "README.html").as_uri())
    table = page.locator("#the-map .table-wrapper").first
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") == 0


CODE = re.compile(r"<(pre|code)\b.*?</\1>", re.DOTALL)
NOT_TEXT = re.compile(r"<(script|style|svg|template)\b.*?</\1>|<[^>]*>", re.DOTALL)
SAMPLE = """([stack, characters]) => {
  const samples = characters.map((character) => Object.assign(document.createElement("p"), { textContent: character }));
  document.body.replaceChildren(...samples);
  document.body.style.fontFamily = getComputedStyle(document.body).getPropertyValue(stack);
  const font = `1em ${document.body.style.fontFamily}`;
  return Promise.all(characters.map((character) => document.fonts.load(font, character))).then(() => samples.length);
}"""


def characters_of(site: Path) -> Iterator[tuple[str, set[str]]]:
    """Yields each font stack with the characters beyond ASCII that the site sets in it."""
    code: set[str] = set()
    text: set[str] = set()
    for file in set(site.rglob("*.html")) - set(site.glob("read/*")):  # read/ repeats chapters and labs
        page = file.read_text(encoding="utf-8")
        if 'class="katex"' in page:  # formulas use KaTeX's fonts, which the site also includes
            soup = BeautifulSoup(page, "html.parser")
            for formula in soup.select(".katex"):
                formula.decompose()
            page = str(soup)
        code.update(*(html.unescape(NOT_TEXT.sub("", block[0])) for block in CODE.finditer(page)))
        text.update(html.unescape(NOT_TEXT.sub("", CODE.sub("", page))))
    for stack, characters in {"--font-stack--monospace": code, "--font-stack": text, "--ui": text}.items():
        yield stack, {character for character in characters if ord(character) > 127 and not character.isspace()}


@pytest.mark.prove
def test_every_character_has_a_glyph_in_a_font_of_the_site(site: Path, page: Page) -> None:
    devtools, missing = page.context.new_cdp_session(page), []
    devtools.send("DOM.enable")
    devtools.send("CSS.enable")  # on a page that is open already, Chromium would load the page's file a second time
    for stack, characters in characters_of(site):
        page.goto((site / "index.html").as_uri())
        page.evaluate(SAMPLE, [stack, sorted(characters)])
        root = devtools.send("DOM.getDocument")["root"]["nodeId"]
        samples = devtools.send("DOM.querySelectorAll", {"nodeId": root, "selector": "body > p"})["nodeIds"]
        for character, sample in zip(sorted(characters), samples, strict=True):
            fonts = devtools.send("CSS.getPlatformFontsForNode", {"nodeId": sample})["fonts"]
            missing += [(stack, character) for font in fonts if not font["isCustomFont"]]
    assert not missing
