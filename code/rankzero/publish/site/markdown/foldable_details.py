"""Foldable details: a `details` element of a page as one node of the document, whose summary may contain code."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

log = logging.getLogger(__name__)
OPENED = re.compile(r"<details>\s*<summary>(.*?)</summary>\s*", re.DOTALL)


class details(nodes.General, nodes.Element):  # noqa: N801 - docutils names nodes so
    """A box whose content appears after a click on its summary, the first child."""


class summary(nodes.General, nodes.TextElement):  # noqa: N801
    """The line of a details box that is visible while the box is closed."""


class FoldDetails(SphinxTransform):
    """Replaces two raw tags and the nodes between them by one node."""

    default_priority = 8

    def apply(self, **_: Any) -> None:
        for raw in list(self.document.findall(nodes.raw)):
            if match := OPENED.fullmatch(raw.astext()):
                _fold(raw, match[1])


def _fold(raw: nodes.raw, text: str) -> None:
    parent, start = raw.parent, raw.parent.index(raw)
    end = next((i for i, node in enumerate(parent) if i > start and node.astext().strip() == "</details>"), None)
    if end is None:
        log.warning("<details> with the summary %r has no </details> with empty lines around", text, location=raw)
        return
    folded = details("", summary("", "", *_inline(text)), *parent[start + 1 : end])
    if text in ("Hints", "Solution"):
        folded["classes"].append(text.lower())
    parent[start : end + 1] = [folded]


def _inline(text: str) -> list[nodes.Node]:
    """Returns the nodes of a summary's text, which markdown leaves as it is: text between backticks is code."""
    parts = enumerate(text.split("`"))
    return [nodes.literal("", part) if i % 2 else nodes.Text(part) for i, part in parts if part]


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    for node_type in (details, summary):
        app.add_node(
            node_type,
            html=(
                lambda html, node: html.body.append(html.starttag(node, node.tagname, "")),
                lambda html, node: html.body.append(f"</{node.tagname}>\n"),
            ),
        )
    app.add_transform(FoldDetails)
