"""One build of the site for all tests, and a browser without network."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_problems import PageProblems
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from rankzero.publish.site import chromium

NO_BROWSER = f"the site is tested in Chromium, and Chromium was not found: install it (Debian: {chromium.INSTALL})"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site: built now, or named by RANKZERO_SITE."""
    if built := os.environ.get("RANKZERO_SITE"):
        return Path(built).resolve()
    from rankzero.publish.site.build import build

    out = tmp_path_factory.mktemp("built") / "site"
    build(out)
    return out


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    executable = chromium.executable()
    if executable is None:
        pytest.fail(NO_BROWSER, pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(chromium.QUIET))
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A wide window without network; the test fails if any page in it has an error or warning."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(20_000)
    recorder = PageProblems(context)
    yield context
    context.close()
    assert not recorder.problems, "\n".join(recorder.problems)


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A page in the wide window of `context`."""
    return context.new_page()
