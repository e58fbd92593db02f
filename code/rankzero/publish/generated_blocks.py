"""Generated blocks: the lines between two HTML comments of a page, which `make sync` fills from another file.

The first comment names the kind of block and its source; the second comment closes the block::

    <!-- facts: train_step -->
    <!-- /facts -->
"""

import re
from collections.abc import Callable
from pathlib import Path

from rankzero.errors import UserError


def fill_blocks(page: Path, text: str, kind: str, fill: Callable[[str, str], str]) -> str:
    """Returns `text`, the text of `page`, with every block of that kind filled.

    `fill` takes the block's source (the opening comment's text after the colon) and its present content, and returns
    its new content. UserError, with the page and the block, for an OSError, SyntaxError or LookupError of `fill` and
    for a block that is not closed.
    """
    block = re.compile(
        rf"(?P<open><!-- {kind}: (?P<source>[^\n]+?) -->\n)(?P<content>.*?)(?P<close><!-- /{kind} -->)", re.DOTALL
    )
    if text.count(f"<!-- {kind}:") != len(block.findall(text)):
        raise UserError(f"{page}: a comment <!-- {kind}: … --> is not closed by <!-- /{kind} -->.")

    def replace(match: re.Match[str]) -> str:
        try:
            return f"{match['open']}{fill(match['source'], match['content'])}{match['close']}"
        except (OSError, SyntaxError, LookupError) as error:
            raise UserError(f"{page}: {kind} '{match['source']}': {error}.") from None

    return block.sub(replace, text)
