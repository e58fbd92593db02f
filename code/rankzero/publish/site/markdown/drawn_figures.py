"""Drawn figures: the pages' SVG pictures as part of the page, where they follow the reader's theme."""

import re
from hashlib import sha256
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from rankzero.figures import themes
from rankzero.figures.registry import all_figures
from rankzero.publish.site.markdown import explorables

_OPEN = re.compile(r"<!-- figure: (?P<name>[\w-]+) -->\s*")
_CLOSE = "<!-- /figure -->"
log = logging.getLogger(__name__)


class drawn_figure(nodes.General, nodes.Element):  # noqa: N801 (as docutils names its nodes)
    """The picture of the figure `name`, whose SVG is in `svg`; its children are the caption."""


class ReplacePictures(SphinxTransform):
    """Replaces what stands between a figure's two comments by the drawing and its caption."""

    default_priority = 205

    def apply(self, **_: Any) -> None:
        for raw in list(self.document.findall(nodes.raw)):
            if match := _OPEN.match(raw.astext()):
                figure = all_figures().get(match["name"])
                block = _up_to_close(raw)
                if figure is None or not block:
                    log.warning("%r is no figure that is closed: run `make sync`", match["name"], location=raw)
                    continue
                for node in block:
                    raw.parent.remove(node)
                svg = figure.file("light").read_text(encoding="utf-8")
                drawing = drawn_figure("", name=figure.name, svg=compact(themes.inline(svg, figure.description)))
                drawing += [node for node in block if isinstance(node, nodes.paragraph)]
                raw.replace_self(drawing)


def compact(svg: str) -> str:
    """Returns an SVG in which styles that several elements have are classes: a third fewer bytes."""
    svg = re.sub(r">\s+<", "><", svg)
    styles = re.findall(r' style="([^"]*)"', svg)
    classes = {style: f"s{sha256(style.encode()).hexdigest()[:6]}" for style in styles if styles.count(style) > 1}
    for style, name in classes.items():
        svg = re.sub(rf' class="([^"]*)" style="{re.escape(style)}"', rf' class="\1 {name}"', svg)
        svg = svg.replace(f' style="{style}"', f' class="{name}"')
    rules = "".join(f"svg .{name}{{{style}}}" for style, name in classes.items())
    return svg.replace("</style>", f"{rules}</style>", 1)


def _up_to_close(raw: nodes.raw) -> list[nodes.Node]:
    """Returns the nodes after `raw` up to the closing comment, which is included; none if it is missing."""
    siblings = raw.parent.children[raw.parent.index(raw) + 1 :]
    for index, node in enumerate(siblings):
        if isinstance(node, nodes.raw) and node.astext().strip().endswith(_CLOSE):
            return siblings[: index + 1]
    return []


def _visit(translator: HTML5Translator, node: drawn_figure) -> None:
    explorable = f' data-explorable="{node["name"]}"' if node["name"] in explorables.scripts() else ""
    translator.body.append(f'<figure class="drawn"{explorable}><div class="drawing">{node["svg"]}</div><figcaption>')


def _depart(translator: HTML5Translator, _: drawn_figure) -> None:
    translator.body.append("</figcaption></figure>\n")


def _write_colors(app: Sphinx) -> None:
    """Writes the style sheet of the figures' colors, which are set in rankzero/figures/style.py alone."""
    static = app.outdir / "_static"
    static.mkdir(parents=True, exist_ok=True)
    (static / "figure-colors.css").write_text(themes.variables(), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.setup_extension("rankzero.publish.site.markdown.explorables")
    app.add_node(drawn_figure, html=(_visit, _depart))
    app.add_transform(ReplacePictures)
    app.add_css_file("figure-colors.css")
    app.add_css_file("figures.css")
    app.connect("builder-inited", _write_colors)
