"""Repository address: where others clone this repository from, set in pyproject.toml and named by pages and notebooks.

README.md has a block with the commands to begin with, which can be pasted as they are: they clone from the address, or
begin in a clone if there is no address::

    <!-- repository: address -->
    <!-- /repository -->
"""

import tomllib
from pathlib import Path

from rankzero.curriculum import ROOT
from rankzero.publish.generated_blocks import fill_blocks

BEGIN = """You need Python 3.11 or newer, git and make, on Linux or macOS. {where}

```sh
{clone}make lab-02     # train a small GPT, in under a minute on two CPU cores
```
"""
IN_A_CLONE = {"where": "Clone this repository and open a terminal in its folder. Then:", "clone": ""}


def read_address(root: Path = ROOT) -> str:
    """Returns the address in the pyproject.toml at `root`, `Repository` of `[project.urls]`; "" where there is none."""
    file = root / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {}) if file.exists() else {}
    return project.get("urls", {}).get("Repository", "").rstrip("/")


def fill(page: Path, text: str, root: Path = ROOT) -> str:
    """Returns `text`, the text of `page`, with the first commands in its block."""
    address = read_address(root)
    clone = {"where": "Then:", "clone": f"git clone {address} rank-zero && cd rank-zero\n"}
    commands = BEGIN.format(**(clone if address else IN_A_CLONE))
    return fill_blocks(page, text, "repository", lambda *_: commands)
