"""Sortable tables: a table whose first column is "said" gets a button in the head of each column.

The class `sortable` marks such a table; sortable-tables.js makes the buttons. Without JavaScript, the rows have the
page's order.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

FIRST = "said"


class MarkSortable(SphinxTransform):
    """Marks the tables that can be sorted."""

    default_priority = 9

    def apply(self, **_: Any) -> None:
        for table in self.document.findall(nodes.table):
            head = next(iter(table.findall(nodes.thead)), None)
            if head is not None and next(iter(head.findall(nodes.entry))).astext() == FIRST:
                table["classes"].append("sortable")


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_transform(MarkSortable)
    app.add_css_file("sortable-tables.css")
    app.add_js_file("sortable-tables.js", loading_method="defer")
