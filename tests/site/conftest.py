"""One build of the site for all tests, and a browser without network that is started again if it has died."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from page_problems import PageProblems
from painted_pages import painted_when_opened
from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright, expect, sync_playwright

from rankzero.publish.site import chromium

NO_BROWSER = f"the site is tested in Chromium, and Chromium was not found: install it (Debian: {chromium.INSTALL})"
PATIENCE = 60_000  # milliseconds: a machine may be busy with other work, and what never comes is waited for once
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site: built now, or named by RANKZERO_SITE."""
    if built := os.environ.get("RANKZERO_SITE"):
        return Path(built).resolve()
    from rankzero.publish.site.build import build

    out = tmp_path_factory.mktemp("built") / "site"
    build(out)
    return out


class Chromium:
    """Headless Chromium, which is started again after it has died."""

    def __init__(self, executable: str) -> None:
        self.executable = executable
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def get(self) -> Browser:
        """Returns a browser that runs."""
        for start in (self._running, self._launch):
            with contextlib.suppress(Error):
                return start()
        self.stop()  # what connects this process with browsers has died too
        return self._launch()

    def _running(self) -> Browser:
        if self._browser is None:
            raise Error("no browser was started")
        self._browser.new_context().close()  # a browser that was killed says only now that it is gone
        return self._browser

    def _launch(self) -> Browser:
        self._playwright = self._playwright or sync_playwright().start()
        self._browser = self._playwright.chromium.launch(executable_path=self.executable, args=list(chromium.QUIET))
        return self._browser

    def stop(self) -> None:
        """Ends the browser."""
        if self._playwright:
            with contextlib.suppress(Error):
                self._playwright.stop()
        self._playwright = self._browser = None


@pytest.fixture(scope="session")
def chromium_process() -> Iterator[Chromium]:
    """Chromium for all tests of this process."""
    executable = chromium.executable()
    if executable is None:
        pytest.fail(NO_BROWSER, pytrace=False)
    process = Chromium(executable)
    yield process
    process.stop()


@pytest.fixture
def browser(chromium_process: Chromium) -> Browser:
    """A browser that runs, also after a test that has ended it."""
    return chromium_process.get()


@pytest.fixture
def new_context(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """A function that opens a context with the given settings; its pages have the time that a busy machine needs."""
    contexts: list[BrowserContext] = []

    def make(**settings: Any) -> BrowserContext:
        context = browser.new_context(**settings)
        context.set_default_timeout(PATIENCE)
        if settings.get("java_script_enabled", True):
            context.on("page", painted_when_opened)
        contexts.append(context)
        return context

    yield make
    for context in contexts:
        with contextlib.suppress(Error):  # the browser is gone: the test has failed, or has ended it
            context.close()


@pytest.fixture
def context(new_context: Callable[..., BrowserContext]) -> Iterator[BrowserContext]:
    """A wide window without network; the test fails if any page in it has an error or warning."""
    context = new_context(viewport={"width": 1440, "height": 900})
    recorder = PageProblems(context)
    yield context
    assert not recorder.problems, "\n".join(recorder.problems)


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A page in the wide window of `context`."""
    return context.new_page()
