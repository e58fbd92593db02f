"""One build of the site for all tests, and a browser that has no network."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

INSTALL = "apt-get install chromium-headless-shell"
NO_BROWSER = f"the site is tested in Chromium, and none was found: install it (Debian: {INSTALL})"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Without these, Chromium itself looks for its maker's servers.
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site: built now, or the one that RANKZERO_SITE names."""
    if built := os.environ.get("RANKZERO_SITE"):
        return Path(built).resolve()
    from rankzero.publish.site.build import build

    out = tmp_path_factory.mktemp("built") / "site"
    build(out)
    return out


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(NO_BROWSER, pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        yield browser
        browser.close()


class Watched:
    """What a page complains of, and what it asks of anything but the site's files."""

    def __init__(self, context: BrowserContext) -> None:
        self.complaints: list[str] = []
        context.set_offline(True)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("request", self._request)
        context.on("requestfailed", lambda request: self.complaints.append(f"not found: {request.url}"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.page.url if message.page else ''}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.complaints.append(f"asked the network: {request.url}")


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A wide window without a network; the test fails if any page in it complains."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(20_000)
    watched = Watched(context)
    yield context
    context.close()
    assert not watched.complaints, "\n".join(watched.complaints)


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A page in that window."""
    return context.new_page()
