"""For the tests of the site: the errors and warnings of pages in a browser."""

from playwright.sync_api import BrowserContext, ConsoleMessage, Request


class PageProblems:
    """Errors and warnings of the pages in a context, and their requests for anything but the site's files."""

    def __init__(self, context: BrowserContext) -> None:
        self.problems: list[str] = []
        context.set_offline(True)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.problems.append(str(error.error)))
        context.on("request", self._request)
        context.on("requestfailed", self._failed)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.page.url if message.page else ''}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.problems.append(f"network request: {request.url}")

    def _failed(self, request: Request) -> None:
        # Chromium gives up what a page still loads when the page is left. A file that is missing has another error.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"not found: {request.url}")
