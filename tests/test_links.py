"""Links of the project's markdown: every relative link and anchor has a target."""

import functools
import itertools
import re
import sys
from pathlib import Path

import nbformat
import pytest
from draft_labs import INCLUDED, is_left_out
from markdown_it import MarkdownIt

from rankzero.claims.registry import TABLE, slugs_in_sources
from rankzero.curriculum import ROOT
from rankzero.publish.sync import pages

FILES = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "solutions").glob("*/*.ipynb")]
NOTEBOOKS = sorted(file for file in FILES if not is_left_out(file))
PAGES = pages(drafts=INCLUDED)
UNLISTED = slugs_in_sources() if INCLUDED else set()  # a draft's claims are not in the table until the lab is finished


def text_of(page: Path) -> str:
    if page.suffix != ".ipynb":
        return page.read_text(encoding="utf-8")
    cells = nbformat.read(page, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def links(text: str) -> list[str]:
    blocks = MarkdownIt("commonmark").enable("table").parse(text)
    inline = [token for block in blocks for token in block.children or [] if token.type in ("link_open", "image")]
    return [str(token.attrs.get("href") or token.attrs.get("src")) for token in inline]


@functools.cache
def anchors(text: str) -> set[str]:
    """Returns GitHub's anchors of headings: lower case, no punctuation, hyphens for spaces, numbers for repetitions."""
    slugs: set[str] = set(re.findall(r'<a id="([^"]+)">', text))  # anchors of the table of claims
    for opening, inline in itertools.pairwise(MarkdownIt("commonmark").parse(text)):
        if opening.type != "heading_open":
            continue
        words = "".join(child.content for child in inline.children or [])
        slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
        repeats = sum(1 for other in slugs if re.fullmatch(re.escape(slug) + r"(-\d+)?", other))
        slugs.add(f"{slug}-{repeats}" if repeats else slug)
    return slugs


def broken(page: Path) -> list[str]:
    problems = []
    for link in links(text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or not target.is_relative_to(ROOT):
            problems.append(f"{link}: no such file")
        elif target == TABLE and anchor in UNLISTED:
            continue
        elif anchor and target.suffix == ".md" and anchor not in anchors(text_of(target)):
            problems.append(f"{link}: no such heading")
    return problems


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    assert broken(page) == []


def test_broken_links_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    page = tmp_path / "a.md"
    headings = "# Two *words*, here\n## x\n## x\n"
    page.write_text(headings + "[1](a.md#two-words-here) [2](#x-1) [3](#x-2) [4](b.md) [5](../c) <!-- [6](d) -->")
    assert broken(page) == ["#x-2: no such heading", "b.md: no such file", "../c: no such file"]


def test_a_draft_may_link_to_a_claim_that_the_table_does_not_have_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, page = sys.modules[__name__], tmp_path / "draft.md"
    table = tmp_path / "claims.md"
    table.write_text("# Claims\n")
    page.write_text("[1](claims.md#new-number) [2](claims.md#no-such-claim)")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "TABLE", table)
    monkeypatch.setattr(module, "UNLISTED", {"new-number"})
    assert broken(page) == ["claims.md#no-such-claim: no such heading"]


def missing_headings(docstrings: str) -> list[str]:
    """Returns references such as `handbook/precision.md, "Dynamic loss scaling"` to headings that do not exist."""
    text = re.sub(r"\s+", " ", docstrings)
    return [
        f'{page}, "{heading}"'
        for page, first, second in re.findall(r'((?:handbook|labs)/[\w-]+\.md), "([^"]+)"(?: and "([^"]+)")?', text)
        for heading in filter(None, (first, second))
        if heading not in re.findall(r"^#+ (.+)$", text_of(ROOT / page).replace("`", ""), re.MULTILINE)
    ]


def test_docstrings_of_exercises_name_headings_that_exist() -> None:
    assert missing_headings('Read: handbook/precision.md, "Dynamic loss\n    scaling" and "Gone"') == [
        'handbook/precision.md, "Gone"'
    ]
    for exercises in sorted((ROOT / "solutions").glob("lab-*/exercises.py")):
        assert missing_headings(exercises.read_text(encoding="utf-8")) == [], exercises


def test_details_are_closed_and_fences_are_paired() -> None:
    for page in pages():
        text = text_of(page)
        assert text.count("<details") == text.count("</details>"), page
        assert len(re.findall(r"^\s*```", text, re.MULTILINE)) % 2 == 0, page


def swallowed_headings(text: str) -> list[str]:
    """Returns lines like headings that are part of HTML, because markdown ends HTML only at an empty line."""
    blocks = MarkdownIt("commonmark").parse(text)
    html = [token.content for token in blocks if token.type == "html_block"]
    return [line for content in html for line in re.findall(r"^#+ .*", content, re.MULTILINE)]


def test_no_heading_follows_html_without_an_empty_line() -> None:
    assert swallowed_headings("</details>\n## Gone\n\n## There\n") == ["## Gone"]
    assert {page.name: lines for page in pages() if (lines := swallowed_headings(text_of(page)))} == {}
