"""Code lines: each line of a code block is an element, so that a line wider than its box wraps under its beginning."""

import re
from collections.abc import Iterable, Iterator

from pygments.formatters import HtmlFormatter
from sphinx.application import Sphinx
from sphinx.highlighting import PygmentsBridge

from rankzero.publish.site.source.syntax_highlighting import line_style

OPTION = re.compile(r"(?<![\w-])--\w+")


class LineFormatter(HtmlFormatter):
    """Pygments' HTML with an element for each line, which contains the line's break."""

    def _format_lines(self, tokensource: Iterable[tuple[object, str]]) -> Iterator[tuple[int, str]]:
        for is_code, html in super()._format_lines(tokensource):
            unbroken = OPTION.sub(r'<span class="unbroken">\g<0></span>', html)  # no line ends after its hyphens
            yield is_code, f'<span class="line"{line_style(html)}>{unbroken}</span>' if is_code else html


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    PygmentsBridge.html_formatter = LineFormatter
