"""Plot descriptions: alternative texts for a notebook's plots, from the code of the cell that draws each plot.

The text gives the plot's titles, axes and the names of its lines, and the docstring of the function that draws it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util.images import get_image_size
from sphinx.writers.html5 import HTML5Translator

from rankzero.curriculum import ROOT


class plot(nodes.image):  # noqa: N801 (as docutils names its nodes)
    """A plot of a notebook, with an alternative text and its size in pixels."""


class DescribePlots(SphinxTransform):
    """Gives each plot of a notebook its text, and its size, so that the page does not jump while the plot loads."""

    default_priority = 220

    def apply(self, **_: Any) -> None:
        for image in list(self.document.findall(nodes.image)):
            cell = next((node for node in _ancestors(image) if node.get("nb_element") == "cell_code"), None)
            if cell is not None and image["uri"].endswith(".png"):
                section = next(node for node in _ancestors(image) if isinstance(node, nodes.section))
                code = next(iter(cell.findall(nodes.literal_block))).astext()
                size = get_image_size(Path(self.env.srcdir, image["uri"].lstrip("/")))
                text = image.get("alt") or describe(code, heading=section[0].astext())
                image.replace_self(plot(uri=image["uri"], alt=text, size=size))


def visit(translator: HTML5Translator, node: plot) -> None:
    """Writes the plot as a link to its picture, which is wider than a phone's screen."""
    source = f"{translator.builder.imgpath}/{translator.builder.images[node['uri']]}"
    width, height = node["size"]
    translator.body.append(translator.starttag(node, "a", "", href=source, CLASS="plot"))
    image = translator.emptytag(node, "img", "", src=source, alt=node["alt"], width=width, height=height)
    translator.body.append(image + "</a>\n")
    raise nodes.SkipNode


def _ancestors(node: nodes.Node) -> Iterator[nodes.Element]:
    while node := node.parent:
        yield node


def describe(code: str, heading: str) -> str:
    """Returns a description of the plot that `code` draws under a heading of the notebook."""
    tree = ast.parse(re.sub(r"^[%!].*$", "", code, flags=re.MULTILINE))
    calls = sorted((node for node in ast.walk(tree) if isinstance(node, ast.Call)), key=lambda call: call.lineno)
    functions = {name: summary for call in calls if (summary := _plot_functions().get(name := _name(call)))}
    panels = list(dict.fromkeys(panel for call in calls if (panel := _panel(call))))
    panels += [text for call in calls if _name(call) in functions for value in call.args for text in _texts(value)]
    lines = list(dict.fromkeys(text for call in calls for text in _texts(_keywords(call).get("label"))))
    sentences = ["; ".join(panels) + "." if panels else "", *functions.values()]
    sentences += [f"It shows {', '.join(lines)}."] if lines else []
    return f"Plot under “{re.sub(r'^[0-9]+[.] ', '', heading)}”: " + " ".join(filter(None, sentences))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _keywords(call: ast.Call) -> dict[str | None, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords}


def _panel(call: ast.Call) -> str:
    """Returns the title and the labels of the axes that a call sets up: "title, y over x"."""
    keywords = _keywords(call)
    if _name(call) == "set_title":
        keywords["title"] = call.args[0]
    title, y, x = (next(_texts(keywords.get(name)), "") for name in ("title", "ylabel", "xlabel"))
    return ", ".join(filter(None, (title, " over ".join(filter(None, (y, x))))))


def _texts(value: ast.expr | None) -> Iterator[str]:
    """Yields the possible values of a string expression, quoted, with an ellipsis for each part known at run time."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield f"“{value.value}”"
    elif isinstance(value, ast.JoinedStr):
        yield f"“{''.join(str(part.value) if isinstance(part, ast.Constant) else '…' for part in value.values)}”"
    elif isinstance(value, ast.IfExp):
        yield from _texts(value.body)
        yield from _texts(value.orelse)


@cache
def _plot_functions() -> dict[str, str]:
    """Returns the first paragraph of the docstring of each function that returns a Figure, without its "Draws"."""
    files = [*(ROOT / "code").glob("rankzero/**/*.py"), *(ROOT / "code").glob("lab-*/*.py")]
    texts = [text for file in files if "-> Figure" in (text := file.read_text(encoding="utf-8"))]
    return {
        node.name: re.sub("^Draws (.)", lambda match: match[1].upper(), docstring.split("\n\n")[0])
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.returns and ast.unparse(node.returns) == "Figure"
        if (docstring := ast.get_docstring(node))
    }
