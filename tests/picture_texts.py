"""Contrast of the words in a picture: the colors of an SVG's texts against what was painted below and above them."""

import cmath
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from matplotlib.path import Path as Outline

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
LETTER, MIDDLE = 0.5, 0.35  # width of a letter and height of a word's middle above its line, in sizes of the font
CODES = {"M": [1], "L": [2], "Q": [3] * 2, "C": [4] * 3, "z": [79]}  # matplotlib's codes of the points of a command
Box = tuple[float, float, float, float]  # left, top, right, bottom


def contrasts_of_words(svg: str, paper: str) -> dict[str, float]:
    """Returns each text's least contrast at its start, middle and end, by WCAG: 1 to 21. `paper` is the page's color.

    A shape that is painted after a text covers the text too. An outlined text stands on its outline, which has the
    page's color. Lines and hatches are not counted.
    """
    layers = list(_layers(ElementTree.fromstring(svg)))
    shapes = [(place, layer) for place, layer in enumerate(layers) if isinstance(layer, Shape)]
    least: dict[str, float] = {}
    for place, word in enumerate(layers):
        if isinstance(word, Word):
            ratio = min(_contrast_at(point, place, word, shapes, paper) for point in word.points)
            least[word.text] = min(ratio, least.get(word.text, ratio))
    return least


@dataclass(frozen=True)
class Word:
    """One text: its color, and points (x + iy) at its start, middle and end."""

    text: str
    color: str
    points: tuple[complex, ...]
    outlined: bool


@dataclass(frozen=True)
class Shape:
    """One filled area: commands of an SVG path, moved by `shift`, of which only the part within `clip` is painted."""

    commands: str
    shift: complex
    color: str
    opacity: float
    clip: Box | None

    @cached_property
    def parts(self) -> tuple[list[tuple[float, float]], list[int]]:
        """The points of the path, and matplotlib's code of each."""
        points: list[tuple[float, float]] = []
        codes: list[int] = []
        for command, text in re.findall(r"([MLQCz])([^MLQCz]*)", self.commands):
            numbers = [float(number) for number in text.split()]
            points += zip(numbers[::2], numbers[1::2], strict=True) if command != "z" else points[-1:]
            codes += CODES[command]
        return [(x + self.shift.real, y + self.shift.imag) for x, y in points], codes

    @cached_property
    def box(self) -> Box:
        """The box around the path."""
        across, down = zip(*self.parts[0], strict=True)
        return min(across), min(down), max(across), max(down)

    def covers(self, point: complex) -> bool:
        """Returns whether the area is painted at a point."""
        inside = _within(self.box, point) and (self.clip is None or _within(self.clip, point))
        return inside and bool(Outline(*self.parts).contains_point((point.real, point.imag)))


def _contrast_at(point: complex, place: int, word: Word, shapes: list[tuple[int, Shape]], paper: str) -> float:
    ground = _channels(paper)
    letters = _channels(word.color)
    for painted, shape in shapes:
        if (painted > place or not word.outlined) and shape.covers(point):
            area = _channels(shape.color)
            ground = shape.opacity * area + (1 - shape.opacity) * ground
            if painted > place:
                letters = shape.opacity * area + (1 - shape.opacity) * letters
    low, high = sorted((_luminance(ground), _luminance(letters)))
    return (high + 0.05) / (low + 0.05)


def _layers(root: ElementTree.Element) -> Iterator[Shape | Word]:
    """Yields the areas and the texts of a picture in the order in which they are painted."""
    named = {f"#{name}": element for element in root.iter() if (name := element.get("id"))}
    clips = {f"url({name})": _box_of(element) for name, element in named.items() if element.tag == f"{SVG}clipPath"}

    def walk(element: ElementTree.Element, clip: Box | None, transform: str) -> Iterator[Shape | Word]:
        clip = clips.get(element.get("clip-path", ""), clip)
        transform = f"{transform} {element.get('transform', '')}"
        style = _style(element)
        if element.tag == f"{SVG}text":
            yield _word(element, transform)
        elif element.tag == f"{SVG}path":
            yield from _areas(element.get("d", ""), 0, style, clip)
        elif element.tag == f"{SVG}use":
            path = named[element.get(LINK, "")]
            shift = complex(float(element.get("x", 0)), float(element.get("y", 0)))
            yield from _areas(path.get("d", ""), shift, style | _style(path), clip)
        elif element.tag != f"{SVG}defs":
            for part in element:
                yield from walk(part, clip, transform)

    return walk(root, None, "")


def _areas(commands: str, shift: complex, style: dict[str, str], clip: Box | None) -> Iterator[Shape]:
    color = style.get("fill", "#000000")
    opacity = float(style.get("fill-opacity", 1)) * float(style.get("opacity", 1))
    if color.startswith("#") and opacity and commands:
        yield Shape(commands, shift, color, opacity, clip)


def _word(element: ElementTree.Element, transform: str) -> Word:
    """Returns a text with the places of its letters, of which matplotlib's formulas place each by itself."""
    parts = list(element) or [element]
    style = _style(parts[0])
    size = float(style["font-size"].removesuffix("px"))
    text = "".join(part.text or "" for part in parts)
    width = LETTER * size * len(text)
    left = {"middle": -0.5, "end": -1.0}.get(style.get("text-anchor", ""), 0.0) * width
    start, direction = _placed(complex(float(element.get("x", 0)), float(element.get("y", 0))), transform)
    above = start - 1j * direction * MIDDLE * size  # y grows downwards
    points = tuple(above + direction * (left + share * width) for share in (0.1, 0.5, 0.9))
    return Word(text, style["fill"], points, element.get("class") == "outlined")


def _placed(point: complex, transform: str) -> tuple[complex, complex]:
    """Returns where an SVG transform moves a point, and in which direction it turns a text there."""
    direction = 1 + 0j
    for name, text in reversed(re.findall(r"(translate|rotate)\(([^)]*)\)", transform)):
        numbers = [float(number) for number in re.split(r"[ ,]+", text)]
        if name == "translate":
            point += complex(*numbers)
        else:
            turn, center = cmath.exp(1j * math.radians(numbers[0])), complex(*numbers[1:])
            point, direction = center + (point - center) * turn, direction * turn
    return point, direction


def _style(element: ElementTree.Element) -> dict[str, str]:
    return dict(rule.split(": ", 1) for rule in element.get("style", "").split("; ") if rule)


def _box_of(clip: ElementTree.Element) -> Box:
    left, top, width, height = (float(clip[0].get(name, 0)) for name in ("x", "y", "width", "height"))
    return left, top, left + width, top + height


def _within(box: Box, point: complex) -> bool:
    return box[0] <= point.real <= box[2] and box[1] <= point.imag <= box[3]


def _channels(color: str) -> np.ndarray:
    """Returns red, green and blue from 0 to 1."""
    return np.frombuffer(bytes.fromhex(color[1:]), np.uint8) / 255


def _luminance(channels: np.ndarray) -> float:
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
