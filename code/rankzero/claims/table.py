"""The table of claims, `handbook/claims.md`, made from the registry and the measurements that are kept."""

from rankzero.claims.claim import Claim, text_of
from rankzero.claims.measurements import Measurement

HEAD = """# Claims

Each row is a number that a page states, with the function that measures it again. `make claims` measures all that your
machine can and writes this table; `rankzero claims SLUG` measures one and shows how. `make test` fails when a value
leaves its tolerance, when a page links to a claim that is not here, and when no page links to one that is.

"Not measured" means that nobody has run it yet on the hardware it needs. *Source* is where the expected number is
published; a claim without one is this project's own finding.
"""


def render(claims: dict[str, Claim], measurements: dict[str, Measurement]) -> str:
    """The whole page."""
    valid = {
        slug: measurements[slug]
        for slug, claim in claims.items()
        if slug in measurements and measurements[slug].counts_for(claim)
    }
    machines = list(dict.fromkeys((one.machine, one.versions) for one in valid.values()))
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
    tolerance = f" ± {text_of(claim.tolerance)}" if claim.tolerance else ""
    unit = f" {claim.unit}" if claim.unit else ""
    source = f" Source: {claim.source.removesuffix('.')}" if claim.source else ""
    if measurement is None:
        measured = ["not measured", "–", "–", f"needs {', '.join(claim.needs)}"]
    else:
        verdict = "holds" if claim.holds(measurement.measured) else "**fails**"
        machine = machines.index((measurement.machine, measurement.versions)) + 1
        measured = [
            text_of(measurement.measured),
            verdict,
            f"{measurement.seconds:.2f}",
            f"{machine}, {measurement.date}",
        ]
    cells = [
        f'<a id="{claim.slug}"></a>`{claim.slug}`<br>{claim.statement}{source}',
        f"{text_of(claim.expected)}{tolerance}{unit}",
        *measured,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
