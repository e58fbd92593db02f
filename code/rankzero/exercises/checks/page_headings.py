"""Page headings: the titles in a markdown page, by the anchors that GitHub gives them."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path


@functools.cache
def page_headings(page: Path) -> Mapping[str, str]:
    """Returns a page's headings by their anchors, the page's title first; nothing if the page cannot be read."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError:
        return {}
    titles = [title.replace("`", "") for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"): title for title in titles}
