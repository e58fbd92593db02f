"""Generated files: stubs, figures, generated blocks in pages, notebooks, recorded output, each made from its source."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat

from rankzero.claims.table import write_table
from rankzero.curriculum import ROOT, Lab, all_labs
from rankzero.figures.figure import PageFigure
from rankzero.figures.pictures import is_stale, unused_pictures, write_pictures
from rankzero.figures.registry import all_figures
from rankzero.publish import (
    course_tables,
    excerpts,
    figure_blocks,
    file_tables,
    hosted_notebooks,
    lab_facts,
    lab_tables,
    notebooks,
    repository_address,
    source_list,
)
from rankzero.publish.recordings import recordings, run_again
from rankzero.publish.stubs import stub


def pages(root: Path = ROOT, *, drafts: bool = False) -> list[Path]:
    """Returns every markdown file of the project; with `drafts`, also those of labs that are not finished."""
    folders = [root / name for name in ("handbook", "labs", "code", "solutions")]
    files = [*root.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]
    left_out = [lab for lab in all_labs(root, drafts=True) if lab.draft and not drafts]
    return sorted(file for file in files if not any(lab.owns(file) for lab in left_out))


def record(labs: list[Lab]) -> Iterator[Path]:
    """Runs every recorded command of `labs` again, keeps its output and yields its file. Takes a minute per lab."""
    for lab in labs:
        for file in recordings(lab):
            file.write_text(run_again(lab, file), encoding="utf-8")
            yield file


def sync(root: Path = ROOT, *, check: bool = False, execute: bool = False) -> Iterator[Path]:
    """Writes every generated file that differs from its source and yields each file when it is written.

    With `check` nothing is written, and the files of drafts are not compared. An executed notebook is run again only
    when its cells changed, or with `execute`.
    """
    labs = {lab.page: lab for lab in all_labs(root, drafts=not check)}
    for lab in labs.values():
        yield from _sync_stubs(lab, check=check)
    if root == ROOT:
        unfinished = {lab.page for lab in all_labs(root, drafts=True)} - labs.keys()
        figures = [figure for figure in all_figures().values() if ROOT / figure.page not in unfinished]
        yield from _sync_pictures(figures, check=check)
        yield from _remove_unused_pictures(check=check)
    for page in pages(root, drafts=not check):
        yield from _sync_page(page, root, labs.get(page), check=check)
    if root == ROOT:
        yield from write_table(check=check)
    for lab in labs.values():
        yield from _sync_notebooks(lab, check=check, execute=execute)


def sync_lab(lab: Lab, *, check: bool = False, execute: bool = False, executed: bool = True) -> list[Path]:
    """Does what `sync` does for the files of one lab and the tables of labs. Without `executed`, no notebook is run."""
    changed = [*_sync_stubs(lab, check=check)]
    if lab.root == ROOT:
        changed += _sync_pictures(_figures_of(lab.page), check=check)
    tables = [lab.root / name for name in ("README.md", "handbook/README.md", "handbook/for-instructors.md")]
    for page in [*filter(Path.exists, tables), lab.page, lab.folder / "README.md"]:
        changed += _sync_page(page, lab.root, lab if page == lab.page else None, check=check)
    return [*changed, *_sync_notebooks(lab, check=check, execute=execute, executed=executed)]


def _sync_stubs(lab: Lab, *, check: bool) -> Iterator[Path]:
    if lab.reference.exists():
        yield from _write(lab.stubs, stub(lab.reference, lab.number), check=check)


def _figures_of(page: Path) -> list[PageFigure]:
    return [figure for figure in all_figures().values() if ROOT / figure.page == page]


def _sync_pictures(figures: Iterable[PageFigure], *, check: bool) -> Iterator[Path]:
    """Draws the figures whose sources changed."""
    for figure in figures:
        if is_stale(figure):
            yield from [figure.file("light")] if check else write_pictures(figure)


def _remove_unused_pictures(*, check: bool) -> Iterator[Path]:
    for file in unused_pictures(all_figures()):
        if not check:
            file.unlink()
        yield file


def _sync_page(page: Path, root: Path, lab: Lab | None, *, check: bool) -> Iterator[Path]:
    """Fills the generated blocks of one page, which is the page of `lab` or, without one, of no lab."""
    text = excerpts.fill(page, page.read_text(encoding="utf-8"), root)
    text = figure_blocks.fill(page, text, root)
    text = file_tables.fill(page, lab_tables.fill(page, text, root), root)
    text = source_list.fill(page, course_tables.fill(page, text, root), root)
    text = repository_address.fill(page, text, root)
    if lab:
        text = hosted_notebooks.fill(lab, lab_facts.fill(lab, text))
    yield from _write(page, text, check=check)


def _write(file: Path, text: str, *, check: bool) -> Iterator[Path]:
    """Yields the file if its text differs, and writes the text unless `check`."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        if not check:
            file.write_text(text, encoding="utf-8")
        yield file


def _sync_notebooks(lab: Lab, *, check: bool, execute: bool, executed: bool = True) -> Iterator[Path]:
    source = lab.notebook_source
    learners_notebook = notebooks.without_answers(source, repository_address.read_address(lab.root))
    if notebooks.is_stale(lab.notebook, learners_notebook, executed=False):
        if not check:
            lab.notebook.parent.mkdir(exist_ok=True)
            nbformat.write(learners_notebook, lab.notebook)
        yield lab.notebook
    if not executed:
        return
    solved_notebook, file = notebooks.with_answers(source), source.with_suffix(".ipynb")
    if execute or notebooks.is_stale(file, solved_notebook, executed=True):
        if not check:
            notebooks.execute(solved_notebook, source)
            nbformat.write(solved_notebook, file)
        yield file
