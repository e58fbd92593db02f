"""Markdown of pages: the transformations that Sphinx applies to it."""
