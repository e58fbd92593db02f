"""Pages that have painted before a test acts on them.

Chromium drops keys and clicks that arrive before a page has painted its first content, and on a busy machine a page can
be loaded before that.
"""

import time
from typing import Any

from playwright.sync_api import Page, Response

PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"
LIMIT = 60  # seconds


def wait_until_painted(page: Page) -> None:
    """Waits until the page in front has painted its first content. The page must have its own clock."""
    end = time.monotonic() + LIMIT
    while not page.evaluate(PAINTED):
        assert time.monotonic() < end, f"{page.url} has painted nothing in {LIMIT} s"
        page.wait_for_timeout(10)


def painted_when_opened(page: Page) -> None:
    """Lets the page's `goto` return only when the new page's content is painted."""
    goto = page.goto

    def until_painted(*arguments: Any, **options: Any) -> Response | None:
        response = goto(*arguments, **options)
        if page.url.startswith("file:"):
            wait_until_painted(page)
        return response

    page.goto = until_painted
