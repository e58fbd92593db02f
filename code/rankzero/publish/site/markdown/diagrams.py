"""Diagrams in mermaid's language, with a description for readers who cannot see them; formulas in fences.

The source of a diagram describes it, in the lines `accTitle:` and `accDescr:`, which GitHub's mermaid knows too.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from rankzero.publish.site.markdown import plot_descriptions

logger = logging.getLogger(__name__)

_WORDS = re.compile(r"^\s*acc(?:Title|Descr)\s*:\s*\S", re.MULTILINE)


class diagram(nodes.General, nodes.Element):  # noqa: N801 (as docutils names its nodes)
    """A picture in mermaid's language, kept in `source`."""


class DrawFences(SphinxTransform):
    """Replaces ```mermaid and ```math fences by diagrams and formulas, as GitHub does."""

    default_priority = 210

    def apply(self, **_: Any) -> None:
        for node in list(self.document.findall(nodes.literal_block)):
            if node.get("language") == "mermaid":
                if len(_WORDS.findall(node.astext())) < 2:
                    text = "a diagram needs two lines that say what it shows, `accTitle: ...` and `accDescr: ...`."
                    logger.warning(text, location=node)
                node.replace_self(diagram("", source=node.astext()))
            elif node.get("language") == "math":
                node.replace_self(nodes.math_block("", node.astext(), nowrap=False, number=None, label=None))


def kind_of(source: str) -> str:
    """Returns the kind of a diagram, in mermaid's own word."""
    return source.split(maxsplit=1)[0]


def _visit(translator: HTML5Translator, node: diagram) -> None:
    source = node["source"]
    classes = f"diagram {kind_of(source)}"
    # The number of lines decides the height of most kinds: the page reserves that space.
    lines = sum(":" in line and "acc" not in line for line in source.splitlines())
    translator.body.append(translator.starttag(node, "figure", CLASS=classes, STYLE=f"--lines: {lines}"))
    translator.body.append(f"<pre hidden>{translator.encode(source)}</pre></figure>\n")
    raise nodes.SkipNode


def _load(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document) -> None:
    """Only a page with a diagram loads what draws it, which is large."""
    if '<figure class="diagram ' in context.get("body", ""):
        app.add_js_file("mermaid/mermaid.tiny.js", loading_method="defer")
        app.add_js_file("diagrams.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.add_node(diagram, html=(_visit, None))
    app.add_node(plot_descriptions.plot, html=(plot_descriptions.visit, None))
    app.add_transform(DrawFences)
    app.add_transform(plot_descriptions.DescribePlots)
    app.add_css_file("diagrams.css")
    app.connect("html-page-context", _load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
