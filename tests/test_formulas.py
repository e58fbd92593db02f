"""Formulas of pages: GitHub typesets each as the site does, although it applies markdown's rules first."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from rankzero.curriculum import ROOT
from rankzero.publish.sync import pages

FORMULA = re.compile(r"(?<![$\\])\$(?!\$)([^$\n]+)\$(?!\$)")
MARKDOWN = MarkdownIt("commonmark").enable("table")


def faults(text: str) -> list[str]:
    """Returns each inline formula that GitHub shows otherwise than meant, with the reason."""
    found = []
    for block in MARKDOWN.parse(text):
        if block.type != "inline":
            continue
        line, depth = "", 0  # the text with a mark for emphasis and other markup, without code and links
        for token in block.children or []:
            depth += token.nesting if token.type.startswith("link_") else 0
            if depth and FORMULA.search(token.content) and token.type == "text":
                found.append(f"{token.content}: a formula within a link")
            line += {"text": token.content, "code_inline": "code", "softbreak": "\n"}.get(token.type, "\0")
        source = re.sub(r"(`+)[^`]+\1", lambda code: "c" * len(code[0]), block.content)
        for formula in FORMULA.finditer(source):
            if re.search(r"\\[^\w\s]", formula[1]):
                found.append(f"{formula[0]}: markdown removes a backslash before punctuation; \\, is \\thinspace")
            if re.match(r"[\w-]", source[formula.start() - 1 : formula.start()]):
                found.append(f"{formula[0]}: a letter, digit or hyphen stands before the formula")
            if re.match(r"\w", source[formula.end() : formula.end() + 1]):
                found.append(f"{formula[0]}: a letter or digit follows the formula")
        found += [f"{formula[0]}: markup within" for formula in FORMULA.finditer(line) if "\0" in formula[1]]
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_github_displays_the_formulas(page: Path) -> None:
    assert not faults(page.read_text(encoding="utf-8")), page.relative_to(ROOT)


@pytest.mark.parametrize(
    "text",
    [
        r"The value is $a\,b$.",
        "See [$a$](claims.md).",
        "The 2$a$ of it.",
        "About $a$b.",
        "The product $a *b* c$ is wrong.",
    ],
)
def test_a_formula_that_github_cannot_display_is_found(text: str) -> None:
    assert len(faults(text)) == 1


def test_a_formula_beside_code_and_in_a_table_is_fine() -> None:
    assert not faults("| a | b |\n|---|---|\n| $x_1$, `$HOME` and `\\,` | ($y^2$-norm) |\n")
