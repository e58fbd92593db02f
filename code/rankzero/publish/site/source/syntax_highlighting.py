"""Syntax highlighting: source in color, line by line, with an anchor for each line."""

import re
from collections.abc import Iterable
from functools import cache

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import TextLexer, get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound

SHEBANG = re.compile(r"#!.*\b(bash|sh|python)")


@cache
def colored(text: str, name: str) -> list[str]:
    """Returns the lines of a file's `text` as HTML. The file's `name`, or else its first line, gives the language."""
    html = highlight(text.rstrip("\n"), _lexer(text, name), HtmlFormatter(nowrap=True))
    return html.removesuffix("\n").split("\n")


def line_style(html: str) -> str:
    """Returns the attribute that gives a line's indentation, in letters, to the style sheets; "" if it has none."""
    text = re.sub(r"<[^>]*>", "", html)
    indentation = len(text) - len(text.lstrip(" "))
    return f' style="--i:{indentation}"' if indentation and text.strip() else ""


def numbered(lines: Iterable[tuple[int, str]]) -> str:
    """Returns the HTML of lines for a <pre>: each has an anchor, L and its number, and begins with a link to itself."""
    return "".join(
        f'<span class="line" id="L{number}"{line_style(html)}>'
        f'<a class="linenos" href="#L{number}" aria-label="Line {number}">{number}</a>{html}\n</span>'
        for number, html in lines
    )


def _lexer(text: str, name: str) -> Lexer:
    as_is = {"stripnl": False, "ensurenl": False}
    try:
        return get_lexer_for_filename(name, **as_is)
    except ClassNotFound:
        language = SHEBANG.match(text)
        return get_lexer_by_name(language[1], **as_is) if language else TextLexer(**as_is)
