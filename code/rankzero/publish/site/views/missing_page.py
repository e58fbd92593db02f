"""Missing page: 404.html, which a server shows for an address without a page, with ways to the pages that exist.

A server shows the page at any address, so the page finds the site's root in the address: the part before a folder of
the site.
"""

import json
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

PAGE = "404"


def folders(app: Sphinx) -> list[str]:
    """Returns the folders at the site's root that hold pages."""
    made = {name.split("/")[0] for name in app.__dict__.get("rankzero_made", {}) if "/" in name}
    return sorted({"_static", *made, *(name.split("/")[0] for name in app.env.found_docs if "/" in name)})


def _page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    yield PAGE, {"title": "No page here", "folders": json.dumps(folders(app))}, "missing-page.html"


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.connect("html-collect-pages", _page, priority=995)  # after the search, which does not find this page
