"""Claim badges: a mark on each number that links to a claim. templates/claim-note.html words the mark's note.

The note shows the expected and the measured values. It is in a `<template>` at the page's end, and claim-badges.js
shows it. Without a script the mark is a link to the claim's row in the table of claims.
"""

import re
from typing import Any

from docutils import nodes
from markdown_it import MarkdownIt
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from rankzero.claims.measurements import FOLDER
from rankzero.claims.registry import all_claims
from rankzero.claims.table import tolerance_of
from rankzero.publish.site.markdown import typography
from rankzero.publish.site.source import source_pages
from rankzero.publish.site.views.claims_page import PAGE, MakeClaimsPage, class_of, measurements, numbers, verdict

MARKDOWN = MarkdownIt("commonmark", {"typographer": True}).enable("smartquotes")
CODE = re.compile("(`[^`]*`)")
log = logging.getLogger(__name__)


class claim_link(nodes.Inline, nodes.TextElement):  # noqa: N801 - docutils names nodes so
    """A number of the text; `claim` is its claim's slug."""


class claim_notes(nodes.Invisible, nodes.Element):  # noqa: N801
    """The notes of a page's badges; `claims` are their claims' slugs."""


class MakeBadges(SphinxTransform):
    """Replaces each link to a claim by a badge, before Sphinx resolves the link."""

    default_priority = 6

    def apply(self, **_: Any) -> None:
        slugs = []
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("reftarget") != PAGE or not node.get("reftargetid"):
                continue
            slug = node["reftargetid"]
            if slug not in all_claims():
                log.warning("there is no claim %r", slug, location=node, type="rankzero", subtype="claim")
                continue
            inside = node.children[0].children  # without the inline node that MyST puts around a link's text
            badge = claim_link("", "", *inside, claim=slug, classes=["claim", class_of(slug)])
            node.replace_self(badge)
            slugs.append(slug)
        if slugs:
            self.document += claim_notes(claims=list(dict.fromkeys(slugs)))
            self._depend(slugs)

    def _depend(self, slugs: list[str]) -> None:
        """Makes Sphinx build the page again after a change in its notes."""
        for file in FOLDER.glob("*.json"):
            self.env.note_dependency(str(file))
        for slug in slugs:
            file, line = all_claims()[slug].place
            self.env.note_dependency(str(file))
            source_pages.link(self.env, self.env.docname, file, line)


def _visit_link(html: HTML5Translator, node: claim_link) -> None:
    href = html.builder.get_relative_uri(html.builder.current_docname, PAGE) + f"#{node['claim']}"
    html.body.append(html.starttag(node, "a", "", href=href, **{"data-claim": node["claim"]}))


def _depart_link(html: HTML5Translator, node: claim_link) -> None:
    html.body.append("</a>")


def _visit_notes(html: HTML5Translator, node: claim_notes) -> None:
    builder, page = html.builder, html.builder.current_docname
    for slug in node["claims"]:
        claim = all_claims()[slug]
        file, line = claim.place
        html.body.append(
            builder.templates.render(
                "claim-note.html",
                {
                    "claim": claim,
                    "statement": typeset(claim.statement),
                    "verdict": verdict(slug),
                    "mark": class_of(slug),
                    "rows": numbers(claim, measurements().get(slug)),
                    "tolerance": typeset(tolerance_of(claim).strip()),
                    "measurement": measurements().get(slug),
                    "how": typeset(claim.how.split("\n\n")[0]),
                    "how_link": source_pages.link(builder.env, page, file, line),
                    "source": typeset(re.sub(r"^https:\S+$", r"<\g<0>>", claim.source.removesuffix("."))),
                    "row_link": builder.get_relative_uri(page, PAGE) + f"#{slug}",
                },
            )
        )
    raise nodes.SkipNode


def typeset(text: str) -> str:
    """Returns a line of markdown as HTML, with the quotes and superscripts of the pages."""
    parts = CODE.split(text)
    parts[::2] = [typography.RUN.sub(_raise, part) for part in parts[::2]]
    return MARKDOWN.renderInline("".join(parts))


def _raise(run: re.Match[str]) -> str:
    return f"<sup>{typography.raised(run[0])}</sup>"


def _add_files(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if pagename == PAGE:
        app.add_css_file("claims-page.css")
        app.add_js_file("claims-page.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.add_node(claim_link, html=(_visit_link, _depart_link))
    app.add_node(claim_notes, html=(_visit_notes, None))
    app.add_transform(MakeBadges)
    app.add_transform(MakeClaimsPage)
    app.connect("html-page-context", _add_files)
    app.add_css_file("claim-badges.css")
    app.add_js_file("claim-badges.js", loading_method="defer")
    return {"parallel_read_safe": False, "parallel_write_safe": True}
