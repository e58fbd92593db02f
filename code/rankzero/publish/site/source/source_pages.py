"""Source pages: a page for each linked file of the repository that is no page itself, with a link for each line."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

from rankzero.curriculum import ROOT, Lab, all_labs
from rankzero.publish.site import page_names
from rankzero.publish.site.page_names import source_page
from rankzero.publish.site.source.docstring_html import prose
from rankzero.publish.site.source.syntax_highlighting import colored, numbered

TEXT = {".diff", ".json", ".jsonl", ".py", ".sbatch", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}
PAGES = {".md", ".ipynb"}


def link(env: BuildEnvironment, docname: str, file: Path, line: int | None = None) -> str:
    """A link from a page to a file, or to one of its lines; makes sure that the file gets its page."""
    wanted: dict[str, set[Path]] = env.__dict__.setdefault("rankzero_files", {})
    wanted.setdefault(docname, set()).add(file.resolve())
    if line:
        env.note_dependency(str(file), docname=docname)  # whose lines may move
    target: str = env.app.builder.get_relative_uri(docname, source_page(file))
    return f"{target}#L{line}" if line else target


def scripts(lab: Lab) -> list[Path]:
    """What is shown annotated of a lab: its starter, then what else there is to run and read beside it."""
    return [lab.starter, *sorted(set(lab.folder.glob("*.py")) - {lab.starter, lab.stubs})]


@cache
def annotated() -> dict[Path, Lab]:
    """Every file that is shown annotated, and its lab."""
    return {file: lab for lab in all_labs() for file in scripts(lab)}


def shown(env: BuildEnvironment) -> list[Path]:
    """Every file and folder that has a page: what is linked to, what is below a linked folder, and `annotated`."""
    wanted: dict[str, set[Path]] = env.__dict__.get("rankzero_files", {})
    found = {*annotated(), *(file for files in wanted.values() for file in files)}
    found |= {one for folder in list(found) if folder.is_dir() for one in folder.rglob("*") if _is_shown(one)}
    return sorted(found)


def crumbs(file: Path, having_pages: set[Path]) -> list[tuple[str, str | None]]:
    """The folders that a file is in, from the repository's own down, with the page of each that has one."""
    folders = [folder for folder in file.relative_to(ROOT).parents if folder.name][::-1]
    return [(folder.name, source_page(ROOT / folder) if ROOT / folder in having_pages else None) for folder in folders]


def first_sentence(file: Path) -> str:
    """The first line of a Python file's docstring, or "" where there is none."""
    if not file.is_file() or not (file.suffix == ".py" or file.read_bytes().startswith(b"#!/usr/bin/env python")):
        return ""
    try:
        return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n")[0]
    except (SyntaxError, ValueError):  # forged files need not be Python
        return ""


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
            if node["reftarget"] and file.exists() and file.suffix not in PAGES:
                uri = link(self.env, self.env.docname, file)
                node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True, classes=["file"]))


def _is_shown(file: Path) -> bool:
    hidden = any(part.startswith((".", "__pycache__")) for part in file.relative_to(ROOT).parts)
    return not hidden and (file.is_dir() or file.suffix in TEXT)


def head(env: BuildEnvironment, file: Path) -> dict[str, Any]:
    """What the template of every page that shows a file needs."""
    lab = next((lab for lab in all_labs() if lab.folder in file.parents or lab.solutions in file.parents), None)
    return {
        "title": file.name,
        "crumbs": crumbs(file, set(shown(env))),
        "says": prose(first_sentence(file)),
        "lab": lab and (page_names.title_of(lab.page), page_names.name_of(lab.page)),
    }


def _show(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    files = shown(app.env)
    for file in files:
        if file.is_dir():
            entries = [_entry(app.env, one, files) for one in sorted(file.iterdir()) if _is_shown(one)]
            yield source_page(file), {**head(app.env, file), "entries": entries}, "source/folder.html"
        elif file not in annotated() and file.suffix != ".diff":  # these have pages of their own kinds
            text = file.read_text(encoding="utf-8")
            yield source_page(file), {**head(app.env, file), "code": _code(text, file.name)}, "source/file.html"


def _entry(env: BuildEnvironment, file: Path, files: list[Path]) -> dict[str, Any]:
    name = page_names.name_of(file)
    page = name if file.suffix in PAGES and name in env.found_docs else source_page(file) if file in files else None
    return {"name": file.name + "/" * file.is_dir(), "page": page, "says": prose(first_sentence(file))}


def _code(text: str, name: str) -> str:
    return numbered(enumerate(colored(text, name), start=1))


def _forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    getattr(env, "rankzero_files", {}).pop(docname, None)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.add_transform(LinkFiles)
    app.connect("html-collect-pages", _show)
    app.connect("env-purge-doc", _forget)
    app.add_css_file("source-pages.css")
    app.add_js_file("source-pages.js")
    return {"parallel_read_safe": False, "parallel_write_safe": True}
