"""Explorables: figures that ask for a guess and then move. A page's picture stays where scripts are off.

handbook/explorables/states_per_rank.js describes the explorable of the figure `states-per-rank`: its question, its
controls, its numbers and its plot. states_per_rank.py beside it lists FORMULAS, Python functions that the page gets as
JavaScript, and DATA, which the page gets as JSON; FIGURES names the figures if several share the explorable.
static/explorables.js makes the form; Observable Plot draws, and is loaded once a reader begins.
"""

import dataclasses
import functools
import importlib
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from rankzero.curriculum import ROOT
from rankzero.figures import style
from rankzero.publish.site import explorable_content
from rankzero.publish.site.python_to_javascript import camel, functions_script, runtime

FOLDER = ROOT / "handbook" / "explorables"
COLORS = {name: f"var(--figure-{value[1:]})" for name, value in vars(style).items() if str(value) in style.DARK}


@functools.cache
def scripts() -> dict[str, Path]:
    """Returns the script of each figure that is an explorable, by the figure's name."""
    files = {file: _module(file.stem) for file in sorted(FOLDER.glob("*.js"))}
    return {
        figure: file
        for file, module in files.items()
        for figure in getattr(module, "FIGURES", (file.stem.replace("_", "-"),))
    }


def _module(stem: str) -> Any:
    return importlib.import_module(f"{explorable_content.__name__}.{stem}")


def script(file: Path) -> str:
    """Returns the script that pages load for handbook/explorables/NAME.js: formulas, data and the explorable."""
    module = _module(file.stem)
    formulas = functions_script(getattr(module, "FORMULAS", ()))
    figures = [name for name, of in scripts().items() if of == file]
    parts = [
        f"Explorables.add({json.dumps(figures)}, (figure) => {{",
        '"use strict";',
        runtime("Number") + formulas if formulas else "",
        f"const color = {json.dumps({name.lower(): value for name, value in COLORS.items()})};",
        f"const data = {json.dumps(getattr(module, 'DATA', {}), default=_plain, separators=(',', ':'))};",
        file.read_text(encoding="utf-8"),
        "return explorable;\n});\n",
    ]
    return "\n".join(filter(None, parts))


def _plain(value: Any) -> dict[str, Any]:
    """Returns a dataclass as the translated formulas read it."""
    return {camel(field.name): getattr(value, field.name) for field in dataclasses.fields(value)}


def _write_scripts(app: Sphinx) -> None:
    folder = app.outdir / "_static" / "explorables"
    folder.mkdir(parents=True, exist_ok=True)
    for file in set(scripts().values()):
        (folder / file.name).write_text(script(file), encoding="utf-8")


def _load(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document) -> None:
    """Adds the scripts to the pages with an explorable."""
    body = context.get("body", "")
    files = {file for name, file in scripts().items() if f'data-explorable="{name}"' in body}
    if not files:
        return
    app.add_css_file("explorables.css")
    app.add_js_file("explorables.js", loading_method="defer")
    for file in sorted(files):
        for needed in getattr(_module(file.stem), "SCRIPTS", ()):
            app.add_js_file(needed, loading_method="defer")
        app.add_js_file(f"explorables/{file.name}", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.connect("builder-inited", _write_scripts)
    app.connect("html-page-context", _load)
