"""Diagrams drawn by mermaid, in the page's colors, and words for those who cannot see them."""

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
