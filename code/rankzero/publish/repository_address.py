"""Repository address: where others clone this repository from, set in pyproject.toml and named by pages and notebooks.

README.md has a block whose `git clone` gets the address; without an address, it clones from `ADDRESS`::

    <!-- repository: address -->
    git clone ADDRESS rank-zero
    <!-- /repository -->
"""

import re
import tomllib
from pathlib import Path

from rankzero.curriculum import ROOT
from rankzero.publish.generated_blocks import fill_blocks


def read_address(root: Path = ROOT) -> str:
    """Returns the address in the pyproject.toml at `root`, `Repository` of `[project.urls]`; "" where there is none."""
    file = root / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {}) if file.exists() else {}
    return project.get("urls", {}).get("Repository", "").rstrip("/")


def fill(page: Path, text: str, root: Path = ROOT) -> str:
    """Returns `text`, the text of `page`, with the address in its block. UserError for a block without `git clone`."""

    def name_address(_: str, content: str) -> str:
        command = re.search(r"git clone (\S+)", content)
        if command is None:
            raise LookupError("expected a command `git clone ADDRESS`")
        return content.replace(command[1], read_address(root) or "ADDRESS")

    return fill_blocks(page, text, "repository", name_address)
