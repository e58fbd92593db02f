"""Diagrams in mermaid's language, with a description for readers who cannot see them; formulas in fences.

The lines `accTitle:` and `accDescr:` of a diagram's source describe the diagram, on GitHub as on the site.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from rankzero.publish.site.markdown import plot_descriptions

log = logging.getLogger(__name__)

_DESCRIPTION = re.compile(r"^\s*acc(?:Title|Descr)\s*:\s*\S", re.MULTILINE)


class diagram(nodes.General, nodes.Element):  # noqa: N801 (as docutils names its nodes)
    """A picture in mermaid's language, kept in `source`."""


class DrawFences(SphinxTransform):
    """Replaces ```mermaid and ```math fences by diagrams and formulas, as GitHub does."""

    default_priority = 210

    def apply(self, **_: Any) -> None:
        for node in list(self.document.findall(nodes.literal_block)):
            if node.get("language") == "mermaid":
                if len(_DESCRIPTION.findall(node.astext())) < 2:
                    text = "a diagram needs two lines that describe it, `accTitle: ...` and `accDescr: ...`."
                    log.warning(text, location=node)
                node.replace_self(diagram("", source=node.astext()))
            elif node.get("language") == "math":
                node.replace_self(nodes.math_block("", node.astext(), nowrap=False, number=None, label=None))


def _visit(translator: HTML5Translator, node: diagram) -> None:
    source = node["source"]
    classes = f"diagram {source.split(maxsplit=1)[0]}"  # the kind of the diagram, by mermaid's name
    # The number of lines decides the height of most diagrams; the page reserves that space.
    lines = sum(":" in line and "acc" not in line for line in source.splitlines())
    translator.body.append(translator.starttag(node, "figure", CLASS=classes, STYLE=f"--lines: {lines}"))
    translator.body.append(f"<pre hidden>{translator.encode(source)}</pre></figure>\n")
    raise nodes.SkipNode


def _load(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document) -> None:
    """Adds mermaid, which is large, to the pages with a diagram."""
    if '<figure class="diagram ' in context.get("body", ""):
        app.add_js_file("mermaid/mermaid.tiny.js", loading_method="defer")
        app.add_js_file("diagrams.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_node(diagram, html=(_visit, None))
    app.add_node(plot_descriptions.plot, html=(plot_descriptions.visit, None))
    app.add_transform(DrawFences)
    app.add_transform(plot_descriptions.DescribePlots)
    app.add_css_file("diagrams.css")
    app.connect("html-page-context", _load)
