"""Typography: superscripts, and words that stay together on one line.

Fonts lack most of Unicode's raised digits, so 10³⁸ gets a raised 38; so does 2^-24, as some claims write what Unicode
cannot raise. A number stays on the line of its unit, a date on one line, a formula on that of the comma after it.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿᵗᵉʰ", "0123456789−+nteh", strict=True))
RUN = re.compile(rf"([{''.join(RAISED)}]+|(?<=[\w)])\^-?\d+(?:\.\d+)?)")
AS_WRITTEN = nodes.literal | nodes.literal_block | nodes.math | nodes.math_block | nodes.raw

UNIT = re.compile(r"(?<=\d) (?=(?:[kKMGT]i?B|B|[MGT]b|m?s|W|%|[kKMGT]?FLOPs?|bytes?|bits?|nats?|tokens?)(?!\w))")
DATE = re.compile(r"(?<!\d)(\d{4}-\d\d-\d\d)(?!\d)")
AFTER_FORMULA = re.compile(r"[.,;:!?)”’]+")
SHORT, SHORT_IN_TABLE = 24, 14  # characters that fit on any line, or in any column
WITHIN = re.compile(r"(?<=[_.#/])(?=\w)")  # where a line may end if it must
UNBROKEN = "unbroken"  # the class of text that stays on one line


class Hold(SphinxPostTransform):
    """Keeps dates, short code, numbers with units and formulas with punctuation on one line."""

    default_priority = 890
    formats = ("html",)

    def run(self, **_: Any) -> None:
        in_tables = {code for cell in self.document.findall(nodes.entry) for code in cell.findall(nodes.literal)}
        for code in self.document.findall(nodes.literal):  # a short --option ends at none of its hyphens
            if len(code.astext()) <= (SHORT_IN_TABLE if code in in_tables else SHORT):
                code["classes"].append(UNBROKEN)
        for text in list(self.document.findall(nodes.Text)):
            if not isinstance(text.parent, AS_WRITTEN) and (UNIT.search(text) or DATE.search(text)):
                parts = enumerate(DATE.split(UNIT.sub("\u00a0", text)))
                text.parent.replace(text, [_held(part) if at % 2 else nodes.Text(part) for at, part in parts])
        for formula in list(self.document.findall(nodes.math)):
            if len(formula.astext()) <= SHORT:
                self._hold_mark(formula)
        for code in in_tables:
            _let_break(code)

    def _hold_mark(self, formula: nodes.math) -> None:
        after = formula.next_node(siblings=True, descend=False)
        if isinstance(after, nodes.Text) and (mark := AFTER_FORMULA.match(after)):
            formula.parent.replace(after, nodes.Text(after[mark.end() :]))
            held = _held("")
            formula.replace_self(held)
            held += [formula, nodes.Text(mark[0])]


def _let_break(code: nodes.literal) -> None:
    """Lets a long NAME_OF_WORDS or a.dotted.name end a line within."""
    *words, last = WITHIN.split(code.astext())
    code.clear()
    for word in words:
        code += [nodes.Text(word), nodes.raw("", "<wbr>", format="html")]
    code += nodes.Text(last)


def _held(text: str) -> nodes.inline:
    return nodes.inline("", text, classes=[UNBROKEN])


class Raise(SphinxPostTransform):
    """Sets runs of raised characters as superscripts, outside code."""

    default_priority = 900
    formats = ("html",)

    def run(self, **_: Any) -> None:
        for text in list(self.document.findall(nodes.Text)):
            if RUN.search(text) and not isinstance(text.parent, AS_WRITTEN):
                parts = [
                    nodes.superscript("", raised(part)) if at % 2 else nodes.Text(part)
                    for at, part in enumerate(RUN.split(text))
                ]
                text.parent.replace(text, parts)


def raised(run: str) -> str:
    """The letters to raise: those of a run of raised ones, or of what follows a caret."""
    return run[1:].replace("-", "−") if run[0] == "^" else "".join(RAISED[letter] for letter in run)


def setup(app: Any) -> dict[str, bool]:
    """Registers this module with Sphinx."""
    app.add_post_transform(Hold)
    app.add_post_transform(Raise)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
