"""Diagrams in mermaid's language, with a description for readers who cannot see them; formulas in fences.

The lines `accTitle:` and `accDescr:` of a diagram's source describe the diagram, on GitHub as on the site.
Chromium draws the diagrams while the site is built, so that pages need no script for them; drawn diagrams are kept in
the environment. If no Chromium is installed, pages load mermaid, which is large, and draw their diagrams themselves.
"""

import functools
import hashlib
import importlib.resources
import mimetypes
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from playwright.sync_api import Page, Route, sync_playwright
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from rankzero.atomic_write import write_atomically
from rankzero.publish.site import chromium, npm_packages
from rankzero.publish.site.markdown import plot_descriptions

log = logging.getLogger(__name__)

STATIC = Path(__file__).parents[1] / "static"
SHEETS = ("styles/furo.css", "fonts/fonts.css", "site.css", "diagrams.css")  # they decide the sizes of words
DRAWING = "diagram-drawing.js"
DRAWN = npm_packages.FOLDER / "diagrams"
NO_CHROMIUM = (
    "No Chromium was found, so pages with a diagram load 2.9 MB of mermaid and draw the diagram in the reader's "
    f"browser: install Chromium (Debian: {chromium.INSTALL}) and build again."
)

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


class Drawer:
    """Chromium with a page that draws diagrams, in the fonts and style sheets of the site's folder `static`."""

    def __init__(self, static: Path) -> None:
        theme = Path(str(importlib.resources.files("furo"))) / "theme" / "furo" / "static"
        self.folders = (STATIC, static, theme, npm_packages.path("."))
        self.playwright = sync_playwright().start()
        browser = self.playwright.chromium.launch(executable_path=chromium.executable(), args=list(chromium.QUIET))
        self.page: Page = browser.new_page(viewport={"width": 1440, "height": 900})
        self.page.route("**/*", self._serve)
        self.page.goto("https://site.invalid/")  # `_serve` answers every request; none reaches a network
        self.page.evaluate("document.fonts.load('13px \"Inter Variable\"')")

    def _serve(self, route: Route) -> None:
        name = route.request.url.removeprefix("https://site.invalid/").partition("?")[0]
        file = next((file for folder in self.folders if (file := folder / name).is_file()), None)
        if not name:
            links = "".join(f'<link rel="stylesheet" href="{sheet}">' for sheet in SHEETS)
            scripts = "".join(f'<script src="{script}"></script>' for script in (npm_packages.MERMAID, DRAWING))
            route.fulfill(body=f"<!doctype html>{links}<body>{scripts}", content_type="text/html; charset=utf-8")
        elif file:
            route.fulfill(body=file.read_bytes(), content_type=mimetypes.guess_type(name)[0] or "font/woff2")
        else:
            route.abort()

    def draw(self, source: str, name: str) -> str:
        """Returns the HTML of a diagram's pictures; `name` begins their ids."""
        drawn: str = self.page.evaluate("([source, name]) => rankzeroDiagrams.draw(source, name)", [source, name])
        return drawn


@functools.cache
def _drawer(static: Path) -> Drawer | None:
    if chromium.executable() is None:
        print(NO_CHROMIUM, file=sys.stderr)
        return None
    return Drawer(static)


@functools.cache
def _fingerprint() -> bytes:
    """Returns a hash of all that decides how a diagram looks, apart from its source."""
    files = [*(STATIC / name for name in (*SHEETS[2:], DRAWING)), npm_packages.FOLDER / "package-lock.json"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


def pictures(source: str, static: Path) -> str | None:
    """Returns the HTML of a diagram's pictures, drawn now or earlier; None if there is no Chromium."""
    key = hashlib.sha256(_fingerprint() + source.encode()).hexdigest()[:10]
    kept = DRAWN / f"{key}.html"
    if not kept.exists():
        drawer = _drawer(static)
        if drawer is None:
            return None
        write_atomically(kept, drawer.draw(source, f"diagram-{key}"))
    return kept.read_text(encoding="utf-8")


def _visit(translator: HTML5Translator, node: diagram) -> None:
    source = node["source"]
    kind = source.split(maxsplit=1)[0]  # by mermaid's name
    drawn = pictures(source, Path(translator.builder.outdir) / "_static")
    translator.body.append(translator.starttag(node, "figure", "", CLASS=f"diagram {kind}"))
    translator.body.append(f"{drawn or f'<pre hidden>{translator.encode(source)}</pre>'}</figure>\n")
    raise nodes.SkipNode


def _load(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document) -> None:
    """Adds mermaid to the pages with a diagram that is not drawn."""
    if re.search(r'<figure class="diagram [^>]*><pre hidden', context.get("body", "")):
        mermaid = npm_packages.path(npm_packages.MERMAID)
        shutil.copy(mermaid, Path(app.outdir) / "_static")
        for script in (mermaid.name, DRAWING, "diagrams.js"):
            app.add_js_file(script, loading_method="defer")


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_node(diagram, html=(_visit, None))
    app.add_node(plot_descriptions.plot, html=(plot_descriptions.visit, None))
    app.add_transform(DrawFences)
    app.add_transform(plot_descriptions.DescribePlots)
    app.add_css_file("diagrams.css")
    app.connect("html-page-context", _load)
