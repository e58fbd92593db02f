"""The summary of a session: what passed, what was measured, with its spread, and a picture of each chart."""

from pathlib import Path
from typing import Any

from gpu_session.pictures import save
from gpu_session.results import Results

from rankzero.claims.chart import Chart
from rankzero.claims.claim import text_of


def write_summary(results: Results, folder: Path) -> None:
    """Writes summary.md and the pictures into `folder`."""
    machine = results.machine
    lines = [
        "# GPU session" + (", a rehearsal on the CPU: the values mean nothing" if results.rehearsal else ""),
        "",
        f"{', '.join(machine.get('gpu', ['no GPU']))}, driver {machine['driver'] or 'none'}; torch {machine['torch']}, "
        f"Python {machine['python']}; commit {machine['commit']}; {machine['date']}",
        "",
        "| part | outcome | seconds | found |",
        "|---|---|---|---|",
        *(f"| {part.name} | {part.status} | {part.seconds} | {_cell(part.text)} |" for part in results.parts),
        "",
        "## Measured",
    ]
    for slug, claim in results.claims.items():
        if "measured" in claim:
            about = next(part.about for part in results.parts if part.name == slug)
            lines += ["", f"### {slug}", "", about, "", f"{text_of(claim['measured'])} {_spread(claim['runs'])}"]
            if "chart" in claim:
                try:
                    save(Chart(**claim["chart"]), folder / f"{slug}.svg", about)
                    lines += ["", f"![{claim['chart']['title']}]({slug}.svg)"]
                except Exception as error:  # the numbers are worth more than their picture
                    lines += ["", f"No picture: {type(error).__name__}: {error}"]
    (folder / "summary.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _spread(runs: list[Any]) -> str:
    others = [text_of(run) for run in runs]
    return f"({len(runs)} runs: {'; '.join(others)})" if len(set(others)) > 1 else f"({len(runs)} × the same)"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
