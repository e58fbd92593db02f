"""Table of claims, `handbook/claims.md`, made from the registry and the kept measurements."""

from pathlib import Path

from rankzero.claims.claim import Claim, text_of
from rankzero.claims.measurements import Measurement, read_measurements
from rankzero.claims.page_links import claim_links
from rankzero.claims.registry import TABLE, all_claims
from rankzero.curriculum import ROOT, all_labs

HEAD = """# Claims

Each row is a number that a page states, with the function that measures it again. `make claims` measures all that your
machine can and writes this table; `rankzero claims SLUG` measures one and shows how. `make test` measures the claims
that take less than a tenth of a second, and at least one of most pages. It compares the code of the others with the
code that was last measured, and fails when they differ, when a value has left its tolerance, when a page links to a
claim that is not here, and when no page links to one that is. `make prove` measures all claims.

"Not measured" means that nobody has run it yet on the hardware it needs. *Source* is where the expected number is
published; a claim without one is this project's own finding.
"""


def write_table(*, check: bool = False) -> list[Path]:
    """Writes the table from the kept measurements; returns its file if it differed. With `check`, writes nothing."""
    text = render(listed_claims(), read_measurements())
    if TABLE.exists() and TABLE.read_text(encoding="utf-8") == text:
        return []
    if not check:
        TABLE.write_text(text, encoding="utf-8")
    return [TABLE]


def listed_claims() -> dict[str, Claim]:
    """Returns the claims of the table: all but those of a draft lab's page to which no chapter and no lab links."""
    drafts = {str(lab.page.relative_to(ROOT)) for lab in all_labs(drafts=True) if lab.draft}
    pages = [*(ROOT / "handbook").glob("*.md"), *(lab.page for lab in all_labs())]
    linked = {slug for page in pages if page != TABLE for slug in claim_links(page.read_text(encoding="utf-8"))}
    return {slug: claim for slug, claim in all_claims().items() if claim.page not in drafts or slug in linked}


def that_count(claims: dict[str, Claim], measurements: dict[str, Measurement]) -> dict[str, Measurement]:
    """Returns the measurements whose digest is that of the claim as it is now."""
    return {
        slug: measurements[slug]
        for slug, claim in claims.items()
        if slug in measurements and measurements[slug].counts_for(claim)
    }


def verdict_of(claim: Claim, measurement: Measurement | None) -> str:
    """Returns "holds", "fails" or "not measured"; the measurement is one that counts."""
    if measurement is None:
        return "not measured"
    return "holds" if claim.holds(measurement.measured) else "fails"


def tolerance_of(claim: Claim) -> str:
    """Returns the tolerance and the unit, as they follow the expected value."""
    tolerance = f" ± {text_of(claim.tolerance)}" if claim.tolerance else ""
    return tolerance + (f" {claim.unit}" if claim.unit else "")


def render(claims: dict[str, Claim], measurements: dict[str, Measurement]) -> str:
    """Returns the whole page."""
    valid = that_count(claims, measurements)
    machines = list(dict.fromkeys((measurement.machine, measurement.versions) for measurement in valid.values()))
    held = sum(claims[slug].holds(measurement.measured) for slug, measurement in valid.items())
    parts = [
        HEAD,
        f"{len(claims)} claims, {len(valid)} measured, {held} within their tolerance. The machines:\n",
        "\n".join(f"{index}. {machine}; {versions}" for index, (machine, versions) in enumerate(machines, 1)) + "\n",
    ]
    for page in dict.fromkeys(claim.page for claim in claims.values()):
        parts.append(_section(page, [claim for claim in claims.values() if claim.page == page], valid, machines))
    return "\n".join(parts)


def _section(
    page: str, claims: list[Claim], measurements: dict[str, Measurement], machines: list[tuple[str, str]]
) -> str:
    name = page.rsplit("/", 1)[-1].removesuffix(".md")
    link = page.removeprefix("handbook/") if page.startswith("handbook/") else f"../{page}"
    lines = [
        f"## {name}\n",
        f"Stated in [{page}]({link}).\n",
        "| claim | expected | measured | verdict | seconds | machine, date |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(claim, measurements.get(claim.slug), machines) for claim in claims]
    return "\n".join(lines) + "\n"


def _row(claim: Claim, measurement: Measurement | None, machines: list[tuple[str, str]]) -> str:
    source = f" Source: {claim.source.removesuffix('.')}" if claim.source else ""
    verdict = verdict_of(claim, measurement)
    if measurement is None:
        measured = [verdict, "–", "–", f"needs {', '.join(claim.needs)}"]
    else:
        machine = machines.index((measurement.machine, measurement.versions)) + 1
        measured = [
            text_of(measurement.measured),
            "**fails**" if verdict == "fails" else verdict,
            f"{measurement.seconds:.2f}",
            f"{machine}, {measurement.date}",
        ]
    cells = [
        f'<a id="{claim.slug}"></a>`{claim.slug}`<br>{claim.statement}{source}',
        f"{text_of(claim.expected)}{tolerance_of(claim)}",
        *measured,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
