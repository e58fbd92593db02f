"""The browser of these tests: what one test does to it does no harm to the next."""

from typing import Any


def test_a_browser_that_has_died_is_started_again(chromium_process: Any) -> None:
    first = chromium_process.get()
    assert chromium_process.get() is first
    first.close()
    second = chromium_process.get()
    assert second is not first
    page = second.new_page()
    assert page.evaluate("1 + 1") == 2
    page.close()
