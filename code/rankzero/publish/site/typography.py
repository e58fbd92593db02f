"""Superscripts as a typesetter sets them: fonts lack most of Unicode's raised digits, so 10³⁸ gets a raised 38."""

import re
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿᵗᵉʰ", "0123456789−+nteh", strict=True))
_RUN = re.compile(f"([{''.join(RAISED)}]+)")


class Raise(SphinxPostTransform):
    """Sets runs of raised characters as superscripts, outside code."""

    default_priority = 900
    formats = ("html",)

    def run(self, **_: Any) -> None:
        for text in list(self.document.findall(nodes.Text)):
            if _RUN.search(text) and not isinstance(text.parent, nodes.literal | nodes.literal_block | nodes.raw):
                parts = [part for part in _RUN.split(text) if part]
                text.parent.replace(text, [_set(part) for part in parts])


def _set(part: str) -> nodes.Node:
    if part[0] not in RAISED:
        return nodes.Text(part)
    raised = "".join(RAISED[letter] for letter in part)
    return nodes.superscript("", raised)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_post_transform(Raise)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
