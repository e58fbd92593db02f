"""Source pages: a page for each linked file of the repository that is no page itself, with an anchor for each line."""

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
_LINKS = addnodes.download_reference | addnodes.pending_xref


def link(env: BuildEnvironment, docname: str, file: Path, line: int | None = None) -> str:
    """Returns the address, from a page, of a file's page or of a line on it, and makes the site show that file."""
    env.metadata[docname].setdefault("rankzero_files", set()).add(file.resolve())
    if line:
        env.note_dependency(str(file), docname=docname)  # an edit of the file changes the numbers of its lines
    target: str = env.app.builder.get_relative_uri(docname, source_page(file))
    return f"{target}#L{line}" if line else target


def scripts(lab: Lab) -> list[Path]:
    """Returns the files of a lab that are shown annotated: its starter, then the other scripts in its folder."""
    return [lab.starter, *sorted(set(lab.folder.glob("*.py")) - {lab.starter, lab.stubs})]


@cache
def annotated() -> dict[Path, Lab]:
    """Returns every file that is shown annotated, and its lab."""
    return {file: lab for lab in all_labs() for file in scripts(lab)}


@cache
def shown(env: BuildEnvironment) -> list[Path]:
    """Returns every file and folder with a page: linked ones, those below a linked folder, and the annotated files.

    All pages have been read before the first call.
    """
    files = set(annotated()).union(*(metadata.get("rankzero_files", ()) for metadata in env.metadata.values()))
    files |= {file for folder in list(files) if folder.is_dir() for file in folder.rglob("*") if _is_shown(file)}
    return sorted(files)


@cache
def _with_pages(env: BuildEnvironment) -> set[Path]:
    return set(shown(env))


def crumbs(file: Path, having_pages: set[Path]) -> list[tuple[str, str | None]]:
    """Returns the folders above a file, outermost first, each with its page or None."""
    folders = [folder for folder in file.relative_to(ROOT).parents if folder.name][::-1]
    return [(folder.name, source_page(ROOT / folder) if ROOT / folder in having_pages else None) for folder in folders]


def first_sentence(file: Path) -> str:
    """Returns the first line of a Python file's docstring, or "" for a file without one."""
    if not file.is_file() or not (file.suffix == ".py" or file.read_bytes().startswith(b"#!/usr/bin/env python")):
        return ""
    try:
        return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n")[0]
    except (SyntaxError, ValueError):  # forged files in tests/attacks may be no Python
        return ""


class LinkFiles(SphinxTransform):
    """Turns links to folders, and to files that Sphinx would offer for download, into links to their pages.

    A link to a page that the site does not have, which is that of a draft lab, becomes its text.
    """

    default_priority = 5

    def apply(self, **_: Any) -> None:
        here = Path(self.env.doc2path(self.env.docname)).parent
        for node in list(self.document.findall(lambda node: isinstance(node, _LINKS))):
            target = str(node["reftarget"]).split("#")[0]
            if node.get("refdomain") == "doc":  # a page's name: handbook/claims is a page, and a folder beside it
                if target not in self.env.found_docs and any((ROOT / f"{target}{kind}").exists() for kind in PAGES):
                    node.replace_self(node.children)
                continue
            file = here / target
            if not target or not file.exists():
                continue
            if file.suffix in PAGES:
                node.replace_self(node.children)
            else:
                uri = link(self.env, self.env.docname, file)
                node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True, classes=["file"]))


def _is_shown(file: Path) -> bool:
    hidden = any(part.startswith((".", "__pycache__")) for part in file.relative_to(ROOT).parts)
    return not hidden and (file.is_dir() or file.suffix in TEXT)


def head(env: BuildEnvironment, file: Path) -> dict[str, Any]:
    """Returns the part of a template's context that all pages of files need."""
    lab = next((lab for lab in all_labs() if lab.folder in file.parents or lab.solutions in file.parents), None)
    return {
        "title": file.name,
        "crumbs": crumbs(file, _with_pages(env)),
        "summary": prose(first_sentence(file)),
        "lab": lab and (page_names.title_of(lab.page), page_names.name_of(lab.page)),
    }


def _show(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    files = shown(app.env)
    for file in files:
        if file.is_dir():
            entries = [_entry(app.env, entry, files) for entry in sorted(file.iterdir()) if _is_shown(entry)]
            yield source_page(file), {**head(app.env, file), "entries": entries}, "source/folder.html"
        elif file not in annotated() and file.suffix != ".diff":  # other modules make these files' pages
            code = numbered(enumerate(colored(file.read_text(encoding="utf-8"), file.name), start=1))
            yield source_page(file), {**head(app.env, file), "code": code}, "source/file.html"


def _entry(env: BuildEnvironment, file: Path, files: list[Path]) -> dict[str, Any]:
    name = page_names.name_of(file)
    page = name if file.suffix in PAGES and name in env.found_docs else source_page(file) if file in files else None
    return {"name": file.name + "/" * file.is_dir(), "page": page, "summary": prose(first_sentence(file))}


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_transform(LinkFiles)
    app.connect("html-collect-pages", _show)
    app.add_css_file("source-pages.css")
    app.add_js_file("source-pages.js")
