"""Headless Chromium: draws the diagrams while the site is built, and runs the tests of the site."""

import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
INSTALL = "apt-get install chromium-headless-shell"
# Without these options, Chromium itself connects to servers.
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


def executable() -> str | None:
    """Returns the path of an installed Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)
