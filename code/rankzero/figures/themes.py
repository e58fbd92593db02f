"""Themes of a figure: SVG for a light page, for a dark page, and for the site, where it follows the page's theme."""

import io
import re

from matplotlib import rc_context
from matplotlib.figure import Figure

from rankzero.errors import UserError
from rankzero.figures.figure import PageFigure
from rankzero.figures.style import DARK, NARROW, ON_BRIGHT, PAPER, SETTINGS, WORDS, settings

FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_COLOR = re.compile(r"#[0-9a-fA-F]{6}\b")
_WORDS = re.compile(r"(<text [^>]*?fill: )(#[0-9a-f]{6})\b")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_OUTLINED = re.compile(r'<g id="outlined-\d+">.*?</g>', re.DOTALL)
_OUTLINE = f".outlined{{paint-order: stroke; stroke: {PAPER}; stroke-width: 3}}</style>"
_NAMES = {color: f"--figure-{color[1:]}" for color in DARK}


def light(figure: PageFigure) -> str:
    """Draws the figure and returns its SVG in the light theme: the same text each time."""
    return tidied(figure.name, drawn(figure))


def drawn(figure: PageFigure) -> str:
    """Draws the figure and returns matplotlib's SVG, the same text each time."""
    with settings(), rc_context({"svg.hashsalt": figure.name}):
        text = io.StringIO()
        drawing = figure.draw()
        _mark_words_on_grids(drawing)
        drawing.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def tidied(name: str, svg: str) -> str:
    """Returns matplotlib's SVG with short numbers and the page's font. UserError for a color that has no dark twin."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r" <metadata>.*?</metadata>\n", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL)
    svg = _OUTLINED.sub(lambda words: words[0].replace("<text ", '<text class="outlined" '), svg)
    if 'class="outlined"' in svg:
        svg = svg.replace("</style>", _OUTLINE, 1)
    svg = re.sub(r"<[^>]+>", lambda tag: _LONG_NUMBER.sub(_two_decimals, tag[0]), svg)  # words keep their digits
    families = re.escape(SETTINGS["font.family"][0])
    svg = re.sub(rf"'{families}'[^;\"]*", FONT, svg)
    svg = re.sub(r' transform="rotate\(-?0 [^"]*"', "", svg)
    used = set(re.findall(r"#([\w-]+)[\")]", svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in used else "", svg)
    svg = "".join(f"{line.rstrip()}\n" for line in svg.splitlines() if line.strip())
    svg = _COLOR.sub(lambda match: match[0].lower(), svg)
    svg = _WORDS.sub(lambda match: match[1] + WORDS.get(match[2], match[2]), svg)
    if strangers := sorted(set(_COLOR.findall(svg)) - set(DARK)):
        raise UserError(
            f"figure {name}: {', '.join(strangers)} is no color of rankzero/figures/style.py; use its names."
        )
    return svg


def dark(light_svg: str) -> str:
    """Returns a light SVG in the dark theme's colors."""
    return _COLOR.sub(lambda match: DARK[match[0]], light_svg)


def inline(light_svg: str, description: str) -> str:
    """Returns a light SVG as an element of a page whose style sheet sets the colors as variables."""
    svg = light_svg[light_svg.index("<svg") :]
    svg = _COLOR.sub(lambda match: f"var({_NAMES[match[0]]})", svg)
    label = description.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    head = rf'<svg \1 role="img" aria-label="{label}">'
    svg = re.sub(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", head, svg, count=1)
    return svg.replace("<svg ", '<svg data-narrow="" ', 1) if f'viewBox="0 0 {72 * NARROW:g} ' in svg else svg


def variables() -> str:
    """Returns the rules of a style sheet that set each color's variable, by the site's theme."""
    lights = "".join(f"{name}:{color};" for color, name in _NAMES.items())
    darks = "".join(f"{_NAMES[color]}:{dark_color};" for color, dark_color in DARK.items())
    return (
        f"body{{{lights}}}\nbody[data-theme=dark]{{{darks}}}\n"
        f"@media(prefers-color-scheme:dark){{body:not([data-theme=light]){{{darks}}}}}\n"
        f"@media print{{body[data-theme]{{{lights}}}}}\n"
    )


def _mark_words_on_grids(drawing: Figure) -> None:
    """Marks the words inside axes with grid lines, to be outlined in the page's color: no line crosses a letter."""
    gridded = (
        axes
        for axes in drawing.axes
        if any(line.get_visible() for line in axes.get_xgridlines() + axes.get_ygridlines())
    )
    words = (text for axes in gridded for text in axes.texts if text.get_color() not in (PAPER, ON_BRIGHT))
    for number, text in enumerate(words):
        text.set_gid(f"outlined-{number}")


def _two_decimals(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
