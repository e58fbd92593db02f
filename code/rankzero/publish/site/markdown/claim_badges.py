"""Claim badges: a mark on each number that links to a claim. templates/claim-note.html words the mark's note.

The note shows the expected and the measured values. It is in a `<template>` at the page's end, and claim-badges.js
shows it. Without JavaScript the mark is a link to the claim's row in the table of claims.
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
    """A number in the text; `claim` is the slug of the number's claim."""


class claim_notes(nodes.Invisible, nodes.Element):  # noqa: N801
    """The notes of a page's badges; `claims` are the slugs of the badges' claims."""


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
            link_text = node.children[0].children  # without the inline node that MyST puts around a link's text
            node.replace_self(claim_link("", "", *link_text, claim=slug, classes=["claim", class_of(slug)]))
            slugs.append(slug)
        if slugs:
            self.document += claim_notes(claims=list(dict.fromkeys(slugs)))
            for file in FOLDER.glob("*.json"):  # the notes show the measurements
                self.env.note_dependency(str(file))
            for slug in slugs:
                source_pages.link(self.env, self.env.docname, *all_claims()[slug].place)


def _visit_link(html: HTML5Translator, node: claim_link) -> None:
    href = html.builder.get_relative_uri(html.builder.current_docname, PAGE) + f"#{node['claim']}"
    html.body.append(html.starttag(node, "a", "", href=href, **{"data-claim": node["claim"]}))


def _visit_notes(html: HTML5Translator, node: claim_notes) -> None:
    builder, page = html.builder, html.builder.current_docname
    for slug in node["claims"]:
        claim, measurement = all_claims()[slug], measurements().get(slug)
        context = {
            "claim": claim,
            "statement": typeset(claim.statement),
            "verdict": verdict(slug),
            "mark": class_of(slug),
            "rows": numbers(claim, measurement),
            "tolerance": typeset(tolerance_of(claim).strip()),
            "measurement": measurement,
            "how": typeset(claim.how.split("\n\n")[0]),
            "how_link": source_pages.link(builder.env, page, *claim.place),
            "source": typeset(re.sub(r"^https:\S+$", r"<\g<0>>", claim.source.removesuffix("."))),
            "row_link": builder.get_relative_uri(page, PAGE) + f"#{slug}",
        }
        html.body.append(builder.templates.render("claim-note.html", context))
    raise nodes.SkipNode


def typeset(text: str) -> str:
    """Returns a line of markdown as HTML, with the quotes and superscripts of the pages."""
    parts = CODE.split(text)
    parts[::2] = [typography.RAISED_RUN.sub(_superscript, part) for part in parts[::2]]
    return MARKDOWN.renderInline("".join(parts))


def _superscript(run: re.Match[str]) -> str:
    return f"<sup>{typography.plain_letters(run[0])}</sup>"


def _add_files(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    if pagename == PAGE:
        app.add_css_file("claims-page.css")
        app.add_js_file("claims-page.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_node(claim_link, html=(_visit_link, lambda html, node: html.body.append("</a>")))
    app.add_node(claim_notes, html=(_visit_notes, None))
    app.add_transform(MakeBadges)
    app.add_transform(MakeClaimsPage)
    app.connect("html-page-context", _add_files)
    app.add_css_file("claim-badges.css")
    app.add_js_file("claim-badges.js", loading_method="defer")
