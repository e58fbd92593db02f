"""Links from pages to claims: which claims a page links to, which figures nothing backs, which linked numbers differ.

A figure is a number with a unit. It is covered if its paragraph, list item or table row links to a claim or to a source
outside the project, if a program in the same section printed it, or if a recorded run on the same page did. A premise
("suppose 80 GB") is marked with the comment `<!-- given -->` in its paragraph.

A number in the text of a link to a claim is typed again on the page, so it is compared with the claim's numbers.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from rankzero.claims.claim import Claim, text_of
from rankzero.claims.registry import TABLE, all_claims
from rankzero.curriculum import ROOT

NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
UNITS = (
    r"bytes?|B|[kKMGT]i?B|bits?|%|per ?cent|×(?! ?\d)|[MGTP]?FLOPs?|[MGTP]?FLOP/s|[MGT]i?B/s|tokens/s|"
    "tokens (?:a|per) second|ns|µs|us|ms|s|seconds?|nats?"
)
FIGURE = re.compile(rf"(?<![\w.,^/-])({NUMBER})[ \u00a0]?({UNITS})(?![\w/])")
# A number by itself: no exponent, and no part of a name or a formula.
ALONE = re.compile(rf"(?<![\w.,^/·-])(?<!Lab )(?:{NUMBER})(?![\w/⁰¹²³⁴-⁹⁻·])")
SCALES = (60, *(2**power for power in (10, 20, 30)), *(10**power for power in (3, 6, 9, 12)))  # minutes, MiB, GB
MATH = re.compile(r"\$[^$]+\$")
RECORDED = r"<!-- excerpt: \S*recorded/[^>]*-->\n```text\n(.*?)```"
PARSER = MarkdownIt("commonmark").enable("table")
CLAIM_LINK = re.compile(r"(?:^|/)claims\.md#([\w-]+)$")


def figures_without_proof() -> list[str]:
    """Returns the figures of all pages that nothing backs, and linked numbers that differ from their claim."""
    folders = (ROOT / "handbook", ROOT / "labs", *(ROOT / "code").glob("lab-*"))
    pages = [ROOT / "README.md", *sorted(page for folder in folders for page in folder.glob("*.md") if page != TABLE)]
    return [line for page in pages for line in (*bare_figures(page), *differing_numbers(page, all_claims()))]


def claim_links(text: str) -> set[str]:
    """Returns the slugs of the claims that a page links to."""
    return {match[1] for href in _links(PARSER.parse(text)) if (match := CLAIM_LINK.search(href))}


def differing_numbers(page: Path, claims: Mapping[str, Claim]) -> list[str]:
    """Returns every number in a link's text that the linked claim does not have, as "page:line: number: the claim"."""
    differing = []
    for token in PARSER.parse(page.read_text(encoding="utf-8")):
        slug = ""
        for child in token.children or []:
            if child.type == "link_open":
                match = CLAIM_LINK.search(str(child.attrs.get("href", "")))
                slug = match[1] if match else ""
            elif child.type == "link_close":
                slug = ""
            elif child.type == "text" and slug in claims:
                place = f"{page.name}:{token.map[0] + 1 if token.map else 0}"
                differing += [
                    f"{place}: {number!r} links to {slug}, which expects {text_of(claims[slug].expected)}"
                    for number in ALONE.findall(MATH.sub(" ", child.content))
                    if not _is_number_of(number, claims[slug])
                ]
    return differing


def _is_number_of(number: str, claim: Claim) -> bool:
    """Returns whether a typed number is an expected one, in any unit, a ratio or difference of two, or stated.

    Half of the number's last digit is rounding; an expected number may also be off by the claim's tolerance.
    """
    typed = float(number.replace(",", ""))
    rounding = 0.5 * 10.0 ** -len(number.partition(".")[2]) * (1 + 1e-9)
    values = list(claim.expected.values()) if isinstance(claim.expected, Mapping) else [claim.expected]
    numbers = [abs(float(value)) for value in values]
    pairs = list(itertools.permutations(numbers, 2))
    derived = [
        *(number * 100 for number in numbers),
        *(number / scale for number in numbers for scale in SCALES),
        *(a / b for a, b in pairs if b),
        *(a - b for a, b in pairs),
        *(float(text.replace(",", "")) for text in ALONE.findall(f"{claim.statement} {claim.unit}")),
    ]
    return (
        any(abs(typed - value) <= max(rounding, claim.tolerance) for value in numbers)
        or any(abs(typed - value) <= rounding for value in derived)
        or typed == claim.tolerance
    )


def bare_figures(page: Path) -> list[str]:
    """Returns every figure of a page that nothing backs, as "page:line: figure: the text around it"."""
    text = page.read_text(encoding="utf-8")
    recorded = _numbers(re.findall(RECORDED, text, re.DOTALL))
    printed = {number: _numbers(outputs) for number, outputs in _outputs_by_section(text).items()}
    sections = _section_of_lines(text)
    bare = []
    for line, prose, covered in _passages(text):
        for match in () if covered else FIGURE.finditer(prose):
            if match[1].replace(",", "") not in recorded | printed.get(sections[line - 1], set()):
                around = prose[max(0, match.start() - 30) : match.end() + 20].replace("\n", " ")
                bare.append(f"{page.name}:{line}: {match[0]!r} in: …{around}…")
    return bare


def _passages(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yields line and text (without code and math) of each paragraph, list item and table row, and whether a claim or
    source backs it.
    """
    lines = text.splitlines()
    rows: dict[int, list[Token]] = {}
    for token in PARSER.parse(text):
        if token.type == "inline" and token.map:
            rows.setdefault(token.map[0], []).append(token)
    for line, inlines in rows.items():
        last = max(token.map[1] for token in inlines if token.map)
        source = "\n".join(lines[line : last + 1])
        prose = "  ".join(
            "".join(child.content if child.type == "text" else " " for child in token.children or [])
            for token in inlines
        )
        backed = any(CLAIM_LINK.search(link) or link.startswith("http") for link in _links(inlines))
        yield line + 1, MATH.sub(" ", prose), backed or "<!-- given -->" in source


def _links(tokens: list[Token]) -> list[str]:
    links = (child for token in tokens for child in token.children or [] if child.type == "link_open")
    return [str(link.attrs.get("href", "")) for link in links]


def _section_of_lines(text: str) -> list[int]:
    """Returns for each line the number of second-level headings above it."""
    section, sections, fenced = 0, [], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        section += line.startswith("## ") and not fenced
        sections.append(section)
    return sections


def _outputs_by_section(text: str) -> dict[int, list[str]]:
    """Returns the output of each section's programs: their `#>` lines."""
    outputs: dict[int, list[str]] = {}
    for section, line in zip(_section_of_lines(text), text.splitlines(), strict=True):
        if match := re.match(r"\s*#> (.*)$", line):
            outputs.setdefault(section, []).append(match[1])
    return outputs


def _numbers(outputs: list[str]) -> set[str]:
    return {number.replace(",", "") for output in outputs for number in re.findall(NUMBER, output)}
