"""The reader: a chapter and a lab in two panes, with what belongs to the lab one click away."""

from pathlib import Path

from sphinx.application import Sphinx

from rankzero.curriculum import Lab


def page_of(lab: Lab, chapter: Path) -> str:
    """The name of the page that shows the two."""
    return f"read/lab-{lab.number}-{chapter.stem}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
