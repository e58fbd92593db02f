"""Excerpt captions: the source file above each excerpt of a page, with a link to its lines."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

from rankzero.curriculum import ROOT
from rankzero.publish.excerpts import Place, locate
from rankzero.publish.site.source import annotated_source, diff_pages, source_pages

COMMENT = re.compile(r"<!-- excerpt: (.+) -->\s*")


def excerpts(document: nodes.document) -> Iterator[tuple[Place, nodes.literal_block]]:
    """Yields the place of each excerpt of a page, and the block that shows it."""
    for raw in list(document.findall(nodes.raw)):
        comment = COMMENT.fullmatch(raw.astext())
        block = raw.next_node(descend=False, siblings=True)
        if comment and isinstance(block, nodes.literal_block):
            yield locate(comment[1], ROOT), block


class CaptionExcerpts(SphinxTransform):
    """Puts a caption above each excerpt."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        for source, block in excerpts(self.document):
            block.parent.insert(block.parent.index(block), _caption(self.env, source))


def _caption(env: BuildEnvironment, source: Place) -> nodes.paragraph:
    """Returns `train_amp.py · train_step` with a link to the source; for a diff, with a link to the older file too."""
    uri = source_pages.link(env, env.docname, source.file, source.first)
    if source.symbol and annotated_source.has_anchor(source.file, source.symbol, source.first):
        uri = f"{uri.rpartition('#')[0]}#{source.symbol}"
    caption = nodes.paragraph("", "", classes=["excerpt-from"])
    caption += _link(uri, source.file.name, source.symbol)
    if source.since:
        caption += [nodes.Text(", changed since "), _link(_since(env, source.since, source), source.since.name, None)]
    return caption


def _since(env: BuildEnvironment, old: Path, source: Place) -> str:
    """Returns the address of the page that compares the two files, or else of the older file."""
    files = (old, source.file)
    labs = next((pair for pair in diff_pages.compared_labs() if tuple(lab.starter for lab in pair) == files), None)
    if labs is None:
        return source_pages.link(env, env.docname, old)
    page: str = env.app.builder.get_relative_uri(env.docname, diff_pages.page_of(labs))
    return f"{page}#{source.symbol}" if source.symbol else page


def _link(uri: str, name: str, symbol: str | None) -> nodes.reference:
    symbol_nodes = [nodes.Text(" · "), nodes.literal("", symbol)] if symbol else []
    return nodes.reference("", "", nodes.literal("", name), *symbol_nodes, refuri=uri, internal=True)


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_transform(CaptionExcerpts)
