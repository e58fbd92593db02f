"""Tables of files in ARCHITECTURE.md: each Python and JavaScript file of a folder with its first line.

A block (`generated_blocks.py`) names the folder; the table includes the folder's subfolders::

    <!-- files: code/rankzero/exercises -->
    <!-- /files -->
"""

from pathlib import Path

from rankzero.publish.generated_blocks import fill_blocks


def fill(page: Path, text: str, root: Path) -> str:
    """Returns `text`, the text of `page`, with its tables of files filled. UserError where a folder does not exist."""

    def table(folder: str, _: str) -> str:
        if not (root / folder).is_dir():
            raise LookupError(f"there is no folder {folder}")
        files = sorted((root / folder).rglob("*.*"), key=lambda file: (file.parent, file.name))
        listed = [file for file in files if file.suffix in (".py", ".js") and not file.name.startswith("__")]
        rows = [_row(file, root / folder, page.parent) for file in listed]
        return "\n".join(["| file | subject |", "|---|---|", *rows]) + "\n"

    return fill_blocks(page, text, "files", table)


def _row(file: Path, folder: Path, page_folder: Path) -> str:
    first_line = file.read_text(encoding="utf-8").split("\n")[0].strip('"/* ')
    name = file.relative_to(folder).as_posix()
    return f"| [`{name}`]({file.relative_to(page_folder).as_posix()}) | {first_line.replace('|', chr(92) + '|')} |"
