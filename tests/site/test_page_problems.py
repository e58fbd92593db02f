"""The recorder of page problems: a missing file is one, a file that a page no longer waits for is none."""

from pathlib import Path

from page_problems import PageProblems
from playwright.sync_api import Browser

PAGE = """<!doctype html><title>One</title>
<style>@font-face { font-family: one; src: url("one.woff2"); } p { font-family: one; }</style><p>text</p>"""


def test_a_missing_font_is_a_problem(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text(PAGE)
    context = browser.new_context()
    recorder = PageProblems(context)
    page = context.new_page()
    with page.expect_event("requestfailed"):
        page.goto((tmp_path / "one.html").as_uri())
    context.close()
    assert f"not found: {(tmp_path / 'one.woff2').as_uri()}" in recorder.problems


def test_a_font_still_loading_when_the_page_is_left_is_no_problem(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text(PAGE)
    context = browser.new_context()
    recorder = PageProblems(context)
    page = context.new_page()
    page.route("**/one.woff2", lambda route: None)  # the font never arrives
    with page.expect_request("**/one.woff2"):
        page.goto((tmp_path / "one.html").as_uri(), wait_until="commit")
    with page.expect_event("requestfailed"):
        page.goto("about:blank")
    context.close()
    assert recorder.problems == []
