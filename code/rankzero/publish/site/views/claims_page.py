"""Claims page: the table of claims, with an anchor, a verdict and a link to the measuring function in each row.

The page is handbook/claims.md with these additions; claims-page.js adds a filter.
"""

import functools
import re
from collections.abc import Mapping
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform

from rankzero.claims.claim import Claim, text_of
from rankzero.claims.measurements import Measurement, read_measurements
from rankzero.claims.registry import TABLE, all_claims
from rankzero.claims.table import that_count, tolerance_of, verdict_of
from rankzero.curriculum import all_labs
from rankzero.publish.site import page_names
from rankzero.publish.site.source import source_pages

PAGE = page_names.name_of(TABLE)
ANCHOR = re.compile(r'<a id="([\w-]+)">')


@functools.cache
def measurements() -> dict[str, Measurement]:
    """Returns the measurements of the current claims, by slug."""
    return that_count(all_claims(), read_measurements())


def verdict(slug: str) -> str:
    """Returns "holds", "fails" or "not measured" for a claim."""
    return verdict_of(all_claims()[slug], measurements().get(slug))


def class_of(slug: str) -> str:
    """Returns a claim's verdict as the name of a CSS class."""
    return verdict(slug).replace(" ", "-")


def numbers(claim: Claim, measurement: Measurement | None) -> list[tuple[str, str, str]]:
    """Returns name, expected and measured value of each number of a claim; the name of a single number is ""."""
    measured = measurement.measured if measurement else None
    if not isinstance(claim.expected, Mapping):
        return [("", text_of(claim.expected), text_of(measured))]
    values = measured if isinstance(measured, Mapping) else {}
    return [(name, text_of(number), text_of(values.get(name))) for name, number in claim.expected.items()]


class MakeClaimsPage(SphinxTransform):
    """Turns each row of the tables into a body with a row per number, and headings into their pages' titles."""

    default_priority = 7

    def apply(self, **_: Any) -> None:
        if self.env.docname != PAGE:
            return
        machines = next(iter(self.document.findall(nodes.enumerated_list)))
        for number, machine in enumerate(machines, 1):
            machine["ids"].append(f"machine-{number}")
        files = [*page_names.chapters(), *(lab.page for lab in all_labs())]
        titles = {file.stem: page_names.title_of(file) for file in files}
        for heading in self.document.findall(nodes.title):
            if title := titles.get(heading.astext()):
                heading.clear()
                heading += nodes.Text(title)
        for table in self.document.findall(nodes.tgroup):
            head, body = table.children[-2:]
            names = [_cell(name) for name in ("claim", "number", "expected", "measured", "verdict")]
            head.children = []
            head += nodes.row("", *names)
            table.children = [*table.children[: len(names)], head]
            table["cols"] = len(names)
            for row in body.children:
                table += self._body(row)

    def _body(self, row: nodes.row) -> nodes.tbody:
        about, _, _, _, seconds, origin = row.children
        match = ANCHOR.search(about.children[0].children[0].astext())
        assert match, f"a row of {PAGE} has no anchor: {about.astext()}"
        slug = match[1]
        claim, measurement = all_claims()[slug], measurements().get(slug)
        rows: list[tuple[nodes.entry, ...]] = [
            (_cell(name), _cell(expected, classes=["claim-value"]), _cell(measured, classes=["claim-value"]))
            for name, expected, measured in numbers(claim, measurement)
        ]
        if tolerance := tolerance_of(claim).strip():
            if len(rows) == 1 and not isinstance(claim.expected, Mapping):
                rows = [(_cell(tolerance, classes=["claim-unit"]), *rows[0][1:])]
            else:
                rows.append((_cell(tolerance, morecols=2, classes=["claim-unit"]),))
        span = {"morerows": len(rows) - 1} if len(rows) > 1 else {}
        return nodes.tbody(
            "",
            nodes.row("", self._about(about, claim, **span), *rows[0], _verdict_cell(slug, seconds, origin, **span)),
            *(nodes.row("", *cells) for cells in rows[1:]),
            ids=[slug],
            classes=["claim-row", class_of(slug)],
        )

    def _about(self, cell: nodes.entry, claim: Claim, **span: int) -> nodes.entry:
        """Returns a cell with the claim's slug and statement, as in `cell`, and a link to the measuring function."""
        name, *statement = [child for child in cell.children[0].children if not isinstance(child, nodes.raw)]
        uri = source_pages.link(self.env, self.env.docname, *claim.place)
        link = nodes.reference("", "How it is measured", refuri=uri, internal=True)
        return nodes.entry(
            "",
            nodes.paragraph("", "", name, classes=["claim-slug"]),
            nodes.paragraph("", "", *statement, classes=["claim-statement"]),
            nodes.paragraph("", "", link, classes=["claim-proof"]),
            **span,
        )


def _cell(text: str, **attributes: Any) -> nodes.entry:
    return nodes.entry("", nodes.paragraph("", text), **attributes)


def _verdict_cell(slug: str, seconds: nodes.entry, origin: nodes.entry, **span: int) -> nodes.entry:
    """Returns a cell with the verdict and, below it, the measurement's date, duration and a link to its machine."""
    mark = nodes.inline("", verdict(slug), classes=["verdict", class_of(slug)])
    note: list[nodes.Node] = [nodes.Text(origin.astext())]
    if slug in measurements():
        number, date = origin.astext().split(", ")
        machine = nodes.reference("", f"machine\u00a0{number}", refid=f"machine-{number}", internal=True)
        note = [nodes.Text(f"{date}, {seconds.astext()}\u00a0s,\u00a0"), machine]
    below = nodes.paragraph("", "", *note, classes=["claim-when"])
    return nodes.entry("", nodes.paragraph("", "", mark), below, **span)
