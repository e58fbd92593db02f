"""Formulas as HTML that KaTeX makes while the site is built, so that pages need no script for them.

One Node.js process typesets all formulas: it reads and writes one line per formula, and ends with its input.
"""

import atexit
import functools
import json
import subprocess
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from rankzero.publish.site import npm_packages

TYPESET = """
const katex = require(process.argv[1]);
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const [formula, displayMode] = JSON.parse(line);
  try {
    console.log(JSON.stringify({ html: katex.renderToString(formula, { displayMode }) }));
  } catch (error) {
    console.log(JSON.stringify({ refused: error.message }));
  }
});
"""


@functools.cache
def _typesetter() -> subprocess.Popen[str]:
    command = [str(npm_packages.NODE), "-e", TYPESET, str(npm_packages.path("katex/dist/katex.js"))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    atexit.register(process.kill)
    return process


@functools.cache
def set_formula(formula: str, display: bool) -> dict[str, str]:
    """Returns KaTeX's HTML under "html", or its error message under "refused"."""
    process = _typesetter()
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps([formula, display]) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def _visit(translator: Any, node: nodes.Element) -> None:
    display = isinstance(node, nodes.math_block)
    reply = set_formula(node.astext(), display)
    if "refused" in reply:
        logging.getLogger(__name__).warning("KaTeX refuses %r: %s", node.astext(), reply["refused"], location=node)
    tag = "div" if display else "span"
    translator.body.append(translator.starttag(node, tag, "", CLASS="math"))
    translator.body.append(f"{reply.get('html', '')}</{tag}>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Registers this module with Sphinx."""
    app.add_html_math_renderer("katex", (_visit, None), (_visit, None))
    app.add_css_file("katex/katex.min.css")
