"""The command `rankzero claims`."""

import dataclasses
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from rankzero.claims.claim import text_of
from rankzero.claims.registry import all_claims, find_claim
from rankzero.cli.terminal import WRITE, Json, console, sentences
from rankzero.curriculum import path_from_here
from rankzero.errors import UserError
from rankzero.learn.machine.cores import usable_cores

if TYPE_CHECKING:  # torch takes seconds to load
    from rankzero.claims.run import Outcome

commands = typer.Typer()


@commands.command(rich_help_panel=WRITE)
def claims(
    slug: Annotated[str | None, typer.Argument(metavar="SLUG", help="Measure one claim and show its code.")] = None,
    page: Annotated[str | None, typer.Option(help="Only claims of this page, such as memory.")] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only claims that are new, have changed, or did not hold.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=1, help="Claims measured at the same time, each in its own process.")
    ] = usable_cores(),
    bare_figures: Annotated[
        bool, typer.Option("--bare-figures", help="List figures on pages that no claim or source backs.")
    ] = False,
    import_file: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="Take the measurements of a `rankzero gpu`.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measures the claims of pages and writes handbook/claims.md.

    Exit code 1 if a number differs from its page.

    Example: rankzero claims --page memory
    """
    with sentences():
        if bare_figures:
            raise typer.Exit(_list_bare_figures())
        if import_file:
            raise typer.Exit(_import(import_file))
        if slug:
            raise typer.Exit(_show_claim(slug, as_json=as_json))
        raise typer.Exit(_measure_all(page, jobs, changed=changed, as_json=as_json))


def _list_bare_figures() -> int:
    """Prints figures that no claim or source backs, and linked numbers that differ from their claim's."""
    from rankzero.claims.page_links import figures_without_proof

    figures = figures_without_proof()
    console.print("\n".join(map(escape, figures)) or "A claim or source backs every figure.")
    return int(bool(figures))


def _import(file: Path) -> int:
    """Imports a GPU session's measurements, and says what became of each; returns the exit code."""
    from rankzero.claims.import_results import import_results
    from rankzero.claims.table import write_table

    taken, left_out = import_results(file, all_claims())
    for slug in taken:
        console.print(f"imported  {slug}")
    for slug, reason in left_out.items():
        console.print(f"left out  {slug}: {escape(reason)}")
    for page in write_table():
        console.print(f"wrote {path_from_here(page)}")
    return 0


def _show_claim(slug: str, *, as_json: bool) -> int:
    """Measures one claim and prints value and method; returns the exit code. UserError if no claim has that slug."""
    with console.status("loading the claims"):
        claim = find_claim(slug)
        from rankzero.claims.measurements import read_measurements
        from rankzero.claims.run import can_measure, run_claim
        from rankzero.claims.table import tolerance_of

    if not can_measure(claim):
        kept = read_measurements().get(slug)
        last = f"measured {kept.date} on {kept.machine}: {text_of(kept.measured)}" if kept else "not measured yet"
        raise UserError(f"claim {slug} needs {', '.join(claim.needs)}, which this machine lacks; {last}.")
    outcome = run_claim(slug)
    if as_json:
        console.print_json(data=dataclasses.asdict(outcome))
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


def _measure_all(page: str | None, jobs: int, *, changed: bool, as_json: bool) -> int:
    """Measures the chosen claims that this machine can measure, writes values and table; returns the exit code."""
    from rankzero.claims.measurements import read_measurements, unproven, write_measurements
    from rankzero.claims.run import can_measure
    from rankzero.claims.table import write_table

    claims = all_claims()
    chosen = {slug: claim for slug, claim in claims.items() if page in (None, claim.page, Path(claim.page).stem)}
    if not chosen:
        pages = sorted({Path(claim.page).stem for claim in claims.values()})
        raise UserError(f"no page {page!r} states a claim: use one of {', '.join(pages)}.")
    if changed:
        chosen = {slug: chosen[slug] for slug in unproven(chosen, read_measurements())}
    outcomes = _with_progress([slug for slug, claim in chosen.items() if can_measure(claim)], jobs)
    failed = [outcome for outcome in outcomes if not outcome.holds]
    files = [*write_measurements(claims, outcomes), *write_table()]
    if as_json:
        console.print_json(data=[dataclasses.asdict(outcome) for outcome in outcomes])
        return int(bool(failed))
    for outcome in failed:
        claim = claims[outcome.slug]
        console.print(f"{_verdict(outcome)}  {outcome.slug}: expected {text_of(claim.expected)} {claim.unit}, ", end="")
        console.print(f"measured {escape(_measured(outcome))}")
    left_out = len(chosen) - len(outcomes)
    console.print(f"{len(outcomes) - len(failed)} of {len(outcomes)} claims hold", end="")
    console.print(f"; {left_out} need hardware that this machine lacks." if left_out else ".")
    for file in files:
        console.print(f"wrote {path_from_here(file)}")
    return int(bool(failed))


def _with_progress(slugs: list[str], jobs: int) -> "list[Outcome]":
    """Measures claims with a progress bar on stderr; returns the outcomes in order of completion."""
    from rankzero.claims.run import run_claims

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(TextColumn("measuring"), *columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(slugs))
        outcomes = []
        for outcome in run_claims(slugs, jobs):
            progress.update(task, advance=1, description=outcome.slug)
            outcomes.append(outcome)
    return outcomes


def _verdict(outcome: "Outcome") -> str:
    return "[green]holds[/]" if outcome.holds else "[red]fails[/]"


def _measured(outcome: "Outcome") -> str:
    return outcome.error or text_of(outcome.measured)
