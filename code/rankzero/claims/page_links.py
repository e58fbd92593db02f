"""Pages and claims: which claims a page links to, and which figures in it nothing stands behind.

A figure is a number with a unit. It is covered if its paragraph, list item or table row links to a claim or to a source
outside the project, if a program in the same section printed it, or a recorded run on the same page did. A premise
("suppose 80 GB") is marked with the comment `<!-- given -->` in its paragraph.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
UNITS = (
    r"bytes?|B|[kKMGT]i?B|bits?|%|per ?cent|×(?! ?\d)|[MGTP]?FLOPs?|[MGTP]?FLOP/s|[MGT]i?B/s|tokens/s|tokens a second|"
    "ns|µs|us|ms|s|seconds?|nats?"
)
FIGURE = re.compile(rf"(?<![\w.,^/-])({NUMBER})[ \u00a0]?({UNITS})(?![\w/])")
MATH = re.compile(r"\$[^$]+\$")
RECORDED = r"<!-- excerpt: \S*recorded/[^>]*-->\n```text\n(.*?)```"
CLAIM_LINK = re.compile(r"(?:^|/)claims\.md#([\w-]+)$")


def claim_links(text: str) -> set[str]:
    """Slugs of the claims that a page links to."""
    return {
        match[1]
        for href in _links(MarkdownIt("commonmark").enable("table").parse(text))
        if (match := CLAIM_LINK.search(href))
    }


def bare_figures(page: Path) -> list[str]:
    """Every figure of a page that nothing stands behind, as "line: figure: the text around it"."""
    text = page.read_text(encoding="utf-8")
    recorded = _numbers(re.findall(RECORDED, text, re.DOTALL))
    printed = {number: _numbers(outputs) for number, outputs in _outputs_by_section(text).items()}
    sections = _section_of_lines(text)
    found = []
    for line, prose, covered in _passages(text):
        if covered:
            continue
        for match in FIGURE.finditer(prose):
            if match[1].replace(",", "") not in recorded | printed.get(sections[line - 1], set()):
                around = prose[max(0, match.start() - 30) : match.end() + 20].replace("\n", " ")
                found.append(f"{page.name}:{line}: {match[0]!r} in: …{around}…")
    return found


def _passages(text: str) -> Iterator[tuple[int, str, bool]]:
    """Paragraphs, list items and table rows: line, text without code and math, whether something stands behind it."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    lines = text.splitlines()
    rows: dict[int, list[Token]] = {}
    for token in tokens:
        if token.type == "inline" and token.map:
            rows.setdefault(token.map[0], []).append(token)
    for line, inlines in rows.items():
        last = max(token.map[1] for token in inlines if token.map)
        source = "\n".join(lines[line : last + 1])
        prose = "  ".join(
            "".join(child.content if child.type == "text" else " " for child in token.children or [])
            for token in inlines
        )
        links = _links(inlines)
        covered = "<!-- given -->" in source or any(
            CLAIM_LINK.search(link) or link.startswith("http") for link in links
        )
        yield line + 1, MATH.sub(" ", prose), covered


def _links(tokens: list[Token]) -> list[str]:
    return [
        str(child.attrs.get("href", ""))
        for token in tokens
        for child in token.children or []
        if child.type == "link_open"
    ]


def _section_of_lines(text: str) -> list[int]:
    """For each line, how many headings of the second level stand above it."""
    section, sections, fenced = 0, [], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        section += line.startswith("## ") and not fenced
        sections.append(section)
    return sections


def _outputs_by_section(text: str) -> dict[int, list[str]]:
    """What the programs of each section print: their `#>` lines."""
    outputs: dict[int, list[str]] = {}
    for section, line in zip(_section_of_lines(text), text.splitlines(), strict=True):
        if match := re.match(r"\s*#> (.*)$", line):
            outputs.setdefault(section, []).append(match[1])
    return outputs


def _numbers(outputs: list[str]) -> set[str]:
    return {number.replace(",", "") for output in outputs for number in re.findall(NUMBER, output)}
