"""Links to files of the repository that are no pages lead to a page that shows the file, with a link for each line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

from rankzero.curriculum import ROOT

TEXT = {".diff", ".json", ".jsonl", ".md", ".py", ".sbatch", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}


def page_of(file: Path, root: Path = ROOT) -> str:
    """The name of the page that shows it."""
    return f"source/{file.resolve().relative_to(root)}"


def link(env: BuildEnvironment, docname: str, file: Path, line: int | None = None) -> str:
    """A link from a page to a file, or to one of its lines; makes sure that the file gets its page."""
    wanted: dict[str, set[Path]] = env.__dict__.setdefault("rankzero_files", {})
    wanted.setdefault(docname, set()).add(file.resolve())
    target: str = env.app.builder.get_relative_uri(docname, page_of(file))
    return f"{target}#L{line}" if line else target


class LinkFiles(SphinxTransform):
    """Turns what Sphinx would offer for download, and links to folders, into links to the files' pages."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        here = Path(self.env.doc2path(self.env.docname)).parent
        for node in [
            *self.document.findall(addnodes.download_reference),
            *self.document.findall(addnodes.pending_xref),
        ]:
            file = here / str(node["reftarget"]).split("#")[0]
            if node["reftarget"] and file.exists() and str(file.suffix) not in (".md", ".ipynb"):
                uri = link(self.env, self.env.docname, file)
                node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True, classes=["file"]))


def _show(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    for file in sorted({file for files in getattr(app.env, "rankzero_files", {}).values() for file in files}):
        name = str(file.relative_to(ROOT))
        yield page_of(file), {"title": name, "body": f"<h1>{name}</h1>{_body(file)}"}, "page.html"


def _body(file: Path) -> str:
    if file.is_dir():
        names = sorted(one.name for one in file.iterdir() if not one.name.startswith((".", "__")))
        return "<ul>" + "".join(f"<li><code>{name}</code></li>" for name in names) + "</ul>"
    try:
        lexer = get_lexer_for_filename(file.name, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    formatter = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True, wrapcode=True)
    return highlight(file.read_text(encoding="utf-8"), lexer, formatter)


def _forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    getattr(env, "rankzero_files", {}).pop(docname, None)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_transform(LinkFiles)
    app.connect("html-collect-pages", _show)
    app.connect("env-purge-doc", _forget)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
