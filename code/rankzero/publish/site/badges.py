"""Claims as badges: what was expected, what was measured, where and when, one hover or tap away."""

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
