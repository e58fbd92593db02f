"""Python blocks of the handbook and the lab pages: they run from top to bottom and print the output on the page."""

from pathlib import Path
from typing import Any

import pytest
from draft_labs import is_left_out
from pytest_examples import CodeExample, EvalExample, find_examples

from rankzero.curriculum import ROOT

LONGEST_LINE = 88  # letters that fit into the column of a page
FILES = sorted([*(ROOT / "handbook").glob("*.md"), *(ROOT / "labs").glob("*.md")])
PAGES = [file for file in FILES if not is_left_out(file)]
# Blocks of these pages start ranks, compile, or train for long.
MARKS = {
    "distributed-data-parallel.md": pytest.mark.real,
    "several-nodes.md": pytest.mark.real,
    "compile-and-export.md": pytest.mark.prove,
    "regularization.md": pytest.mark.prove,
}


def blocks(page: Path) -> list[CodeExample]:
    # An excerpt is part of a file that other tests run, and may be incomplete.
    lines = page.read_text(encoding="utf-8").splitlines()
    return [
        example
        for example in find_examples(page)
        if example.prefix == "python" and not lines[example.start_line - 2].startswith("<!-- excerpt:")
    ]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name, marks=MARKS.get(page.name, ())) for page in PAGES])
def test_code_prints_the_output_on_the_page(page: Path, eval_example: EvalExample) -> None:
    # `#> text` below a print is its output. `pytest tests/test_handbook.py --update-examples` writes it again.
    eval_example.set_config(line_length=100)
    names: dict[str, Any] = {}
    for block in blocks(page):
        run = eval_example.run_print_update if eval_example.update_examples else eval_example.run_print_check
        names.update(run(block, module_globals=names))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_of_python_blocks_fit_into_the_column(page: Path) -> None:
    # A longer line wraps on the site. Output, as `#> text`, keeps the lines that the program printed.
    long = [
        f"{page.name}:{number}: {len(line)} letters: {line}"
        for block in find_examples(page)
        if block.prefix == "python"
        for number, line in enumerate(block.source.splitlines(), block.start_line + 1)
        if len(line) > LONGEST_LINE and not line.lstrip().startswith("#>")
    ]
    assert long == []
