"""Page files: leaves out the style sheets and scripts that a page has no use for, the site's and other packages'."""

from typing import Any

from sphinx.application import Sphinx

from rankzero.publish.site import page_names

# The name of a file -> a text of the pages that use it; "" for a file that no page uses.
USES = {
    "doctools.js": "",
    "sphinx_highlight.js": "",
    "mystnb.": 'class="cell',  # a notebook's cell
    "katex/": 'class="katex',
    "sortable-tables.": '<table class="sortable',
}
# The name of a file -> the beginnings of the names of the templates that use it.
TEMPLATES = {
    "side-by-side.js": ("side-by-side.html",),
    "source-pages.js": ("source/", "side-by-side.html"),
    "annotated-source.css": ("source/", "side-by-side.html", "calculator.html"),
}


def _leave_out(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    body = context.get("body", "")
    absent = [name for name, text in USES.items() if not text or text not in body]
    absent += [name for name, templates in TEMPLATES.items() if not templatename.startswith(templates)]
    if pagename != page_names.FRONT:
        absent.append("home.css")
    if templatename == "page.html" and "highlight-diff" not in body:
        absent.append("diff-pages.css")
    for kind in ("css_files", "script_files"):
        context[kind] = [file for file in context[kind] if not any(name in str(file.filename) for name in absent)]


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.connect("html-page-context", _leave_out, priority=950)  # after all other modules have added their files
