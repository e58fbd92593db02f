"""Notebooks of a lab, made from its py:percent source: an executed notebook with answers and a learner's without.

The learner's notebook has a cell more, which installs Rank Zero where it is missing (`hosted_notebooks.py`).
In the source a prediction is an assignment that ends in `# predict: UNIT`; the learner's notebook assigns `None`. A
markdown cell tagged `answer` is empty in the learner's notebook. Outputs exist only in the executed notebook.
"""

import re
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from rankzero.errors import UserError
from rankzero.publish import hosted_notebooks

CELL_TIMEOUT_S = 120
_PREDICTION = re.compile(r"^(?P<name>\w+) = .+?  # predict: (?P<unit>.+)$", re.MULTILINE)


def with_answers(source: Path) -> NotebookNode:
    """Returns the notebook of `source`, complete but not executed. UserError for a malformed prediction."""
    notebook = jupytext.read(source, fmt="py:percent")
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"  # jupytext's ids are random
        if cell.source.count("# predict:") != len(_PREDICTION.findall(cell.source)):
            raise UserError(f"{source}: cell {number}: a prediction must read `name = answer  # predict: unit`.")
    return notebook


def without_answers(source: Path, address: str = "") -> NotebookNode:
    """Returns the learner's notebook: predictions and explanations to fill in, no outputs.

    Its first code cell clones the repository from `address` where Rank Zero is missing.
    """
    notebook = with_answers(source)
    for cell in notebook.cells:
        tags = cell.metadata.pop("tags", [])
        if cell.cell_type == "code":
            cell.source = _PREDICTION.sub(r"\g<name> = None  # predict: \g<unit>", cell.source)
        elif "answer" in tags:
            cell.source = "*Your explanation:*"
        else:
            # The source is two folders deep, the learner's notebook one folder.
            cell.source = cell.source.replace("](../../", "](../")
    introduction, *cells = notebook.cells
    if links := hosted_notebooks.links(source.parent.name, address):
        introduction.source += f"\n\n{links}"
    install = new_code_cell(hosted_notebooks.first_cell(address), id="cell-install")
    notebook.cells = [introduction, install, *cells]
    return notebook


def execute(notebook: NotebookNode, source: Path) -> None:
    """Runs every cell in place, in the folder of `source`. UserError for a cell that fails."""
    resources = {"metadata": {"path": str(source.parent)}}
    client = NotebookClient(notebook, timeout=CELL_TIMEOUT_S, record_timing=False, resources=resources)
    client.extra_arguments = ["--log-level=ERROR"]  # without a warning that the kernel's sockets are not encrypted
    try:
        client.execute()
    except CellExecutionError as error:
        raise UserError(f"{source}: a cell fails with {error.ename}: {error.evalue}") from None
    notebook.metadata.language_info = {"name": "python"}  # without the kernel's version


def is_stale(file: Path, fresh: NotebookNode, *, executed: bool) -> bool:
    """Returns whether the notebook in `file` differs from `fresh` in its cells, or fails to be `executed` or empty."""
    try:
        notebook = nbformat.read(file, as_version=4)
    except Exception:  # absent, cut off, or edited by hand into something else
        return True
    if notebook.metadata.get("kernelspec") != fresh.metadata.kernelspec or _content(notebook) != _content(fresh):
        return True
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not executed:
        return any(cell.outputs or cell.execution_count for cell in code)
    failed = any(output.output_type == "error" for cell in code for output in cell.outputs)
    return failed or not all(cell.execution_count for cell in code)


def _content(notebook: NotebookNode) -> list[tuple[str, str, str, list[str]]]:
    return [(cell.id, cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in notebook.cells]
