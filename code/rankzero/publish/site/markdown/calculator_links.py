"""Calculator links: from a page to the calculator at the setting that the page discusses; GitHub shows nothing.

The page's markdown has a comment at the link's place, `<!-- calculator: link text #recipe=fp32&batch_size=4 -->`.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

from rankzero.publish.site.views import calculator

COMMENT = re.compile(r"<!-- calculator: (?P<words>[^#]+) #(?P<setting>\S+) -->\s*")
log = logging.getLogger(__name__)


class LinkSettings(SphinxTransform):
    """Replaces each comment by a line with the link."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        for raw in list(self.document.findall(nodes.raw)):
            if comment := COMMENT.fullmatch(raw.astext()):
                page = self.env.app.builder.get_relative_uri(self.env.docname, calculator.PAGE)
                line = nodes.paragraph("", "In the calculator: ", classes=["to-calculator"])
                line += nodes.reference("", comment["words"], refuri=f"{page}#{comment['setting']}", internal=True)
                raw.replace_self(line)
            elif raw.astext().startswith("<!-- calculator"):
                text = raw.astext().strip()
                log.warning("%r leads nowhere: write <!-- calculator: words #setting -->", text, location=raw)


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_transform(LinkSettings)
