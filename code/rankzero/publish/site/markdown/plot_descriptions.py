"""Plot descriptions: alternative texts for a notebook's plots, from the code of the cell that draws each plot.

A text has the plot's titles, its axes, the names of its lines, and the docstring of the function that draws it.
"""

import ast
import re
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.writers.html5 import HTML5Translator

from rankzero.curriculum import ROOT


class plot(nodes.image):  # noqa: N801 (as docutils names its nodes)
    """A plot of a notebook, with its text and its size."""


class DescribePlots(SphinxTransform):
    """Gives each plot of a notebook its text, and its size, so that the page does not jump when it loads."""

    default_priority = 220

    def apply(self, **_: Any) -> None:
        for image in list(self.document.findall(nodes.image)):
            cell = next((node for node in _above(image) if node.get("nb_element") == "cell_code"), None)
            if cell is not None and image["uri"].endswith(".png"):
                section = next(node for node in _above(image) if isinstance(node, nodes.section))
                code = next(iter(cell.findall(nodes.literal_block))).astext()
                size = size_of(Path(self.env.srcdir, image["uri"].lstrip("/")))
                text = image.get("alt") or describe(code, heading=section[0].astext())
                image.replace_self(plot(uri=image["uri"], alt=text, size=size))


def visit(translator: HTML5Translator, node: plot) -> None:
    """Writes it as a link to the picture, which is larger than a phone."""
    source = f"{translator.builder.imgpath}/{translator.builder.images[node['uri']]}"
    width, height = node["size"]
    translator.body.append(translator.starttag(node, "a", "", href=source, CLASS="plot"))
    image = translator.emptytag(node, "img", "", src=source, alt=node["alt"], width=width, height=height)
    translator.body.append(image + "</a>\n")
    raise nodes.SkipNode


def _above(node: nodes.Node) -> Iterator[nodes.Element]:
    while node := node.parent:
        yield node


def describe(code: str, heading: str) -> str:
    """What the plot shows that `code` draws under a heading of the notebook."""
    tree = ast.parse(re.sub(r"^[%!].*$", "", code, flags=re.MULTILINE))
    calls = sorted((node for node in ast.walk(tree) if isinstance(node, ast.Call)), key=lambda call: call.lineno)
    named = {name: said for call in calls if (said := _helpers().get(name := _name(call)))}
    panels = list(dict.fromkeys(panel for call in calls if (panel := _panel(call))))
    panels += [text for call in calls if _name(call) in named for one in call.args for text in _texts(one)]
    lines = list(dict.fromkeys(text for call in calls for text in _texts(_keywords(call).get("label"))))
    sentences = ["; ".join(panels) + "." if panels else "", *named.values()]
    sentences += [f"It shows {', '.join(lines)}."] if lines else []
    return f"Plot under “{re.sub(r'^[0-9]+[.] ', '', heading)}”: " + " ".join(one for one in sentences if one)


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _keywords(call: ast.Call) -> dict[str | None, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords}


def _panel(call: ast.Call) -> str:
    """What a call says of the axes that it sets up: their title, and what is drawn over what."""
    given = _keywords(call)
    if _name(call) == "set_title":
        given["title"] = call.args[0]
    title, over, along = (next(_texts(given.get(name)), "") for name in ("title", "ylabel", "xlabel"))
    return ", ".join(one for one in (title, " over ".join(one for one in (over, along) if one)) if one)


def _texts(value: ast.expr | None) -> Iterator[str]:
    """The strings that an expression can become, quoted, with an ellipsis for what is known only when it runs."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield f"“{value.value}”"
    elif isinstance(value, ast.JoinedStr):
        yield f"“{''.join(str(part.value) if isinstance(part, ast.Constant) else '…' for part in value.values)}”"
    elif isinstance(value, ast.IfExp):
        yield from _texts(value.body)
        yield from _texts(value.orelse)


@cache
def _helpers(root: Path = ROOT) -> dict[str, str]:
    """The repository's functions that return a figure, and what each says of itself."""
    files = [*(root / "code").glob("rankzero/**/*.py"), *(root / "code").glob("lab-*/*.py")]
    texts = [text for file in files if "-> Figure" in (text := file.read_text(encoding="utf-8"))]
    functions = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return {
        one.name: (ast.get_docstring(one) or "").split("\n\n")[0]
        for one in functions
        if one.returns and ast.unparse(one.returns) == "Figure"
    }


def size_of(file: Path) -> tuple[int, int]:
    """Width and height of a PNG, in pixels."""
    width, height = struct.unpack(">II", file.read_bytes()[16:24])
    return width, height
