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
from rankzero.publish.excerpts import Place, place
from rankzero.publish.site.source import annotated_source, diff_pages, source_pages

COMMENT = re.compile(r"<!-- excerpt: (.+) -->\s*")


def excerpts(document: nodes.document) -> Iterator[tuple[Place, nodes.literal_block]]:
    """Yields the place of each excerpt of a page and the block that shows it."""
    for raw in list(document.findall(nodes.raw)):
        comment = COMMENT.fullmatch(raw.astext())
        block = raw.next_node(descend=False, siblings=True)
        if comment and isinstance(block, nodes.literal_block):
            yield place(comment[1], ROOT), block


class CaptionExcerpts(SphinxTransform):
    """Puts the caption there. A solution's source is the page's own subject: it needs none."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        for found, block in excerpts(self.document):
            if ROOT / "solutions" not in found.file.parents:
                at = block.parent.index(block)
                block.parent.insert(at, _caption(self.env, found))


def _caption(env: BuildEnvironment, found: Place) -> nodes.paragraph:
    """`train_amp.py · train_step`, and of a diff also since when, with a link to the whole of it."""
    uri = source_pages.link(env, env.docname, found.file, found.first)
    name = annotated_source.anchor(found.file, found.symbol or "")
    if name and name == found.symbol and found.first == annotated_source.first_line(found.file, name):
        uri = f"{uri.rpartition('#')[0]}#{name}"
    caption = nodes.paragraph("", "", classes=["excerpt-from"])
    caption += _link(uri, found.file.name, found.symbol)
    if found.since:
        caption += [nodes.Text(", changed since "), _link(_since(env, found.since, found), found.since.name, None)]
    return caption


def _since(env: BuildEnvironment, old: Path, found: Place) -> str:
    """The page that compares the two files, or else the older one."""
    way = next((way for way in diff_pages.ways() if (way[0].starter, way[1].starter) == (old, found.file)), None)
    if way is None:
        return source_pages.link(env, env.docname, old)
    page: str = env.app.builder.get_relative_uri(env.docname, diff_pages.page_of(*way))
    return f"{page}#{found.symbol}" if found.symbol else page


def _link(uri: str, name: str, symbol: str | None) -> nodes.reference:
    words = [nodes.literal("", name), *([nodes.Text(" · "), nodes.literal("", symbol)] if symbol else [])]
    return nodes.reference("", "", *words, refuri=uri, internal=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.add_transform(CaptionExcerpts)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
