"""Annotated source: a starter's comments as prose beside the code they speak of."""

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
