"""Search entries: each section of each page, each claim, and each function of a source file that the site shows."""

import ast
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.environment import BuildEnvironment

from rankzero.claims.table import listed_claims
from rankzero.curriculum import ROOT
from rankzero.publish.site import page_names

CLAIMS = "handbook/claims"
# The kind of a page by the beginning of its name. A solved notebook repeats the learner's notebook and has no kind.
KINDS = {
    "labs/": "lab",
    CLAIMS: "claim",
    "handbook/": "chapter",
    "notebooks/": "notebook",
    "code/": "code",
    "source/": "source",
    "solutions/": "",
    "read/": "",  # repeats a chapter and a lab
}

# Folders of files that are one entry, without their functions: tests and the measurements of claims.
WHOLE = ("tests/", "handbook/claims/", "code/rankzero/claims/")

_SKIPPED = nodes.literal_block | nodes.math_block | nodes.raw | nodes.Invisible | nodes.section | nodes.image
_SIGNS = {"times": "×", "cdot": "·", "approx": "≈", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "sqrt": "√"}
_SIGNS |= {"sum": "Σ", "odot": "⊙", "leftarrow": "←", "to": "→", "Rightarrow": "⇒", "infty": "∞", "pm": "±"}


@dataclass(frozen=True)
class Entry:
    """A search result: a place on a page, with its title and text."""

    page: str  # the page's name in Sphinx
    page_title: str
    anchor: str  # "" for the page's beginning
    title: str
    text: str


def kind_of(page: str) -> str:
    """Returns the kind of a page in one word; "" for a page that repeats other pages."""
    return next((kind for start, kind in KINDS.items() if page.startswith(start)), "page")


def of_page(page: str, document: nodes.document) -> Iterator[Entry]:
    """Yields the sections of a page, each without its subsections."""
    sections = list(document.findall(nodes.section))
    for section in sections:
        title = _flat(section[0])
        anchor = "" if section is sections[0] else section["ids"][0]
        text = " ".join(filter(None, map(_flat, section.children[1:])))
        yield Entry(page, _flat(sections[0][0]), anchor, title, text)


def of_file(file: Path) -> Iterator[Entry]:
    """Yields a source file and its functions and classes, with the text of their docstrings and comments."""
    name, page = str(file.relative_to(ROOT)), page_names.source_page(file)
    if file.suffix != ".py" or name.startswith(WHOLE):
        yield Entry(page, name, "", file.name, "")
        return
    source = file.read_text(encoding="utf-8")
    tree, lines = ast.parse(source), source.splitlines()
    yield Entry(page, name, "", file.name, _documentation(tree, []))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            text = _documentation(node, lines[node.lineno : node.end_lineno])
            yield Entry(page, name, f"L{node.lineno}", node.name, text)


def _documentation(node: ast.Module | ast.FunctionDef | ast.ClassDef, lines: list[str]) -> str:
    """Returns a node's docstring and the comments in its lines as one line of text."""
    comments = [comment[1] for line in lines if (comment := re.search(r"(?:^|\s)# (.*)$", line))]
    return " ".join(" ".join([ast.get_docstring(node) or "", *comments]).split()).replace("`", "")


def _flat(node: nodes.Node) -> str:
    text = " ".join("".join(_words(node)).split())
    return "" if text == "Your explanation:" else text  # the empty answer of a notebook


def _words(node: nodes.Node) -> Iterator[str]:
    if isinstance(node, nodes.Text):
        yield str(node)
    elif isinstance(node, nodes.math):
        yield plain(node.astext())
    elif node.tagname == "diagram":  # of markdown/diagrams.py, which this folder may not import
        yield from re.findall(r"accDescr: (.*)", node["source"])
    elif not isinstance(node, _SKIPPED) and node.get("nb_element") != "cell_code":
        for child in node.children:
            yield from _words(child)
        if not isinstance(node, nodes.Inline):
            yield " "


def plain(latex: str) -> str:
    """Returns a formula as a line of text that can be searched and read."""
    text = re.sub(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"\1/\2", latex)
    return re.sub(r"\\([A-Za-z]+)|\\.|[{}]", lambda command: _sign(command[1] or ""), text)


def _sign(command: str) -> str:
    with suppress(KeyError):
        return _SIGNS.get(command) or unicodedata.lookup(
            f"GREEK {'SMALL' if command.islower() else 'CAPITAL'} LETTER {command.replace('lambda', 'lamda').upper()}"
        )
    return ""


def all_of(env: BuildEnvironment) -> Iterator[Entry]:
    """Yields the entries of all pages of markdown or notebooks; for the table of claims, its beginning and its rows."""
    for page in sorted(env.found_docs):
        if kind_of(page) and page != CLAIMS:
            yield from of_page(page, env.get_doctree(page))
    yield next(of_page(CLAIMS, env.get_doctree(CLAIMS)))
    for slug, claim in listed_claims().items():
        yield Entry(CLAIMS, "Claims", slug, slug, claim.statement)
