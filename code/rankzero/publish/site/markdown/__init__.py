"""Markdown of pages on the site: the transformations that Sphinx applies to it."""
