"""Measuring for a person: progress, verdicts, the table, and one claim with how it was measured."""

import dataclasses
import inspect
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from rankzero.claims.claim import Claim, text_of
from rankzero.claims.measurements import read_measurements, write_measurements
from rankzero.claims.page_links import bare_figures
from rankzero.claims.registry import all_claims, find_claim
from rankzero.claims.run import Outcome, can_measure, run_claim, run_claims
from rankzero.claims.table import render, tolerance_of
from rankzero.curriculum import ROOT
from rankzero.errors import UserError

TABLE = ROOT / "handbook" / "claims.md"


def write_table(*, check: bool = False) -> list[Path]:
    """Writes the table from the measurements that are kept; returns it if it differed. With `check`, writes nothing."""
    text = render(all_claims(), read_measurements())
    if TABLE.exists() and TABLE.read_text(encoding="utf-8") == text:
        return []
    if not check:
        TABLE.write_text(text, encoding="utf-8")
    return [TABLE]


def pages_with_figures() -> list[Path]:
    """Pages in which a figure needs something behind it."""
    folders = (ROOT / "handbook", ROOT / "labs", *(ROOT / "code").glob("lab-*"))
    return sorted(page for folder in folders for page in folder.glob("*.md") if page != TABLE)


def all_bare_figures() -> list[str]:
    """Figures of all pages that nothing stands behind."""
    return [figure for page in (ROOT / "README.md", *pages_with_figures()) for figure in bare_figures(page)]


def show_one(slug: str, console: Console, *, as_json: bool) -> int:
    """Measures one claim and prints how; returns the exit code. UserError if there is none."""
    claim = find_claim(slug)
    if not can_measure(claim):
        kept = read_measurements().get(slug)
        last = f"measured {kept.date} on {kept.machine}: {text_of(kept.measured)}" if kept else "not measured yet"
        raise UserError(f"claim {slug} needs {', '.join(claim.needs)}, which this machine lacks; {last}.")
    outcome = run_claim(slug)
    if as_json:
        console.print_json(json.dumps(dataclasses.asdict(outcome)))
        return int(not outcome.holds)
    console.print(f"[bold]{escape(claim.statement)}[/]\nStated in {claim.page}.")
    if claim.source:
        console.print(f"Source: {escape(claim.source)}")
    console.print(f"\nHow: {escape(claim.how)}\n")
    console.print(Syntax(inspect.getsource(claim.measure), "python", theme="ansi_light", background_color="default"))
    console.print(f"expected  {text_of(claim.expected)}{tolerance_of(claim)}")
    console.print(f"measured  {_measured(outcome)} {claim.unit}")
    console.print(f"verdict   {_verdict(outcome)}, in {outcome.seconds:.2f} s")
    return int(not outcome.holds)


def measure_all(page: str | None, jobs: int, console: Console, *, as_json: bool) -> int:
    """Measures every claim that this machine can, keeps the values and writes the table; returns the exit code."""
    claims = all_claims()
    chosen = {slug: claim for slug, claim in claims.items() if page in (None, claim.page, Path(claim.page).stem)}
    if not chosen:
        pages = sorted({Path(claim.page).stem for claim in claims.values()})
        raise UserError(f"no page {page!r} states a claim: use one of {', '.join(pages)}.")
    outcomes = _with_progress([claim for claim in chosen.values() if can_measure(claim)], jobs)
    failed = [outcome for outcome in outcomes if not outcome.holds]
    files = [*write_measurements(claims, outcomes), *write_table()]
    if as_json:
        console.print_json(json.dumps([dataclasses.asdict(outcome) for outcome in outcomes]))
        return int(bool(failed))
    for outcome in failed:
        claim = claims[outcome.slug]
        console.print(f"{_verdict(outcome)}  {outcome.slug}: expected {text_of(claim.expected)} {claim.unit}, ", end="")
        console.print(f"measured {escape(_measured(outcome))}")
    left_out = len(chosen) - len(outcomes)
    console.print(f"{len(outcomes) - len(failed)} of {len(outcomes)} claims hold", end="")
    console.print(f"; {left_out} need hardware that this machine lacks." if left_out else ".")
    for file in files:
        console.print(f"wrote {file.relative_to(ROOT)}")
    return int(bool(failed))


def _with_progress(claims: Sequence[Claim], jobs: int) -> list[Outcome]:
    columns = (
        TextColumn("measuring"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(claims))
        outcomes = []
        for outcome in run_claims([claim.slug for claim in claims], jobs):
            progress.update(task, advance=1, description=outcome.slug)
            outcomes.append(outcome)
    return outcomes


def _verdict(outcome: Outcome) -> str:
    return "[green]holds[/]" if outcome.holds else "[red]fails[/]"


def _measured(outcome: Outcome) -> str:
    return outcome.error or text_of(outcome.measured)
