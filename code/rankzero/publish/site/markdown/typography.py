"""Typography: superscripts, and words that stay together on one line.

Fonts lack most of Unicode's superscript digits, so the 38 of 10³⁸ becomes a `<sup>`, as does the -24 of 2^-24, the form
in which some claims write exponents. A number stays on the line of its unit, a date on one line, and a formula on the
line of the comma after it.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿᵗᵉ\N{MODIFIER LETTER SMALL H}", "0123456789−+nteh", strict=True))
RAISED_RUN = re.compile(rf"([{''.join(RAISED)}]+|(?<=[\w)])\^-?\d+(?:\.\d+)?)")
AS_WRITTEN = nodes.literal | nodes.literal_block | nodes.math | nodes.math_block | nodes.raw

UNIT = re.compile(r"(?<=\d) (?=(?:[kKMGT]i?B|B|[MGT]b|m?s|W|%|[kKMGT]?FLOPs?|bytes?|bits?|nats?|tokens?)(?!\w))")
DATE = re.compile(r"(?<!\d)(\d{4}-\d\d-\d\d)(?!\d)")
AFTER_FORMULA = re.compile(r"[.,;:!?)”’]+")
SHORT, SHORT_IN_TABLE = 24, 14  # characters that fit on any line, or in any column
BREAK = re.compile(r"(?<=\S[_.#/])(?=\w)")  # positions in a long name at which a line may end
OPTION = re.compile(r"((?<![\w-])--\w+=?)")  # its first word: the line may end after a later hyphen
UNBROKEN = "unbroken"  # the CSS class of text that stays on one line


class KeepOnOneLine(SphinxPostTransform):
    """Keeps dates, short code, numbers with units and formulas with punctuation on one line."""

    default_priority = 890
    formats = ("html",)

    def run(self, **_: Any) -> None:
        in_tables = {code for cell in self.document.findall(nodes.entry) for code in cell.findall(nodes.literal)}
        for code in list(self.document.findall(nodes.literal)):
            if len(code.astext()) <= (SHORT_IN_TABLE if code in in_tables else SHORT):
                code["classes"].append(UNBROKEN)  # no line break after the hyphens of a short --option
            if code in in_tables or OPTION.search(code.astext()):
                _set_breaks(code, in_names=code in in_tables)
        for text in list(self.document.findall(nodes.Text)):
            if not isinstance(text.parent, AS_WRITTEN) and (UNIT.search(text) or DATE.search(text)):
                parts = enumerate(DATE.split(UNIT.sub("\u00a0", text)))
                text.parent.replace(text, [_unbroken(part) if i % 2 else nodes.Text(part) for i, part in parts])
        for formula in list(self.document.findall(nodes.math)):
            if len(formula.astext()) <= SHORT:
                _hold_punctuation(formula)


def _hold_punctuation(formula: nodes.math) -> None:
    """Keeps a formula on the line of the punctuation mark after it."""
    after = formula.next_node(siblings=True, descend=False)
    if isinstance(after, nodes.Text) and (mark := AFTER_FORMULA.match(after)):
        formula.parent.replace(after, nodes.Text(after[mark.end() :]))
        unbroken = _unbroken("")
        formula.replace_self(unbroken)
        unbroken += [formula, nodes.Text(mark[0])]


def _set_breaks(code: nodes.literal, *, in_names: bool) -> None:
    """Forbids a line break after an --option's hyphens; `in_names` allows it in NAME_OF_WORDS and a.dotted.name."""
    parts = OPTION.split(code.astext())
    code.clear()
    for place, part in enumerate(parts):
        if place % 2:
            code += [_unbroken(part), nodes.raw("", "<wbr>", format="html")] if in_names else [_unbroken(part)]
            continue
        *pieces, last_piece = BREAK.split(part) if in_names else [part]
        for piece in pieces:
            code += [nodes.Text(piece), nodes.raw("", "<wbr>", format="html")]
        code += nodes.Text(last_piece)


def _unbroken(text: str) -> nodes.inline:
    return nodes.inline("", text, classes=[UNBROKEN])


class SetSuperscripts(SphinxPostTransform):
    """Sets runs of raised characters as superscripts, except in code."""

    default_priority = 900
    formats = ("html",)

    def run(self, **_: Any) -> None:
        for text in list(self.document.findall(nodes.Text)):
            if RAISED_RUN.search(text) and not isinstance(text.parent, AS_WRITTEN):
                parts = [
                    nodes.superscript("", plain_letters(part)) if i % 2 else nodes.Text(part)
                    for i, part in enumerate(RAISED_RUN.split(text))
                ]
                text.parent.replace(text, parts)


def plain_letters(run: str) -> str:
    """Returns the letters of a superscript, given as raised characters or as a caret with the letters after it."""
    return run[1:].replace("-", "−") if run[0] == "^" else "".join(RAISED[letter] for letter in run)


def setup(app: Any) -> None:
    """Registers this module with Sphinx."""
    app.add_post_transform(KeepOnOneLine)
    app.add_post_transform(SetSuperscripts)
