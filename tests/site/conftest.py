"""One build of the site for all tests, and a browser without network."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_problems import PageProblems
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

INSTALL = "apt-get install chromium-headless-shell"
NO_BROWSER = f"the site is tested in Chromium, and Chromium was not found: install it (Debian: {INSTALL})"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Without these options, Chromium itself connects to servers.
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


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
    executable = next((path for name in NAMES if (path := shutil.which(name))), None)
    if executable is None:
        pytest.fail(NO_BROWSER, pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(QUIET))
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
