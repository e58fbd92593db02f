"""Diffs in colors, and a page for the way from each starter to the next."""

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
