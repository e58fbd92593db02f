"""Commands for authors: laying out a new lab, and the gates of one lab."""

import os
from typing import Annotated

import typer
from rich.markup import escape

from rankzero.cli.terminal import WRITE, console, sentences
from rankzero.curriculum import find_lab, path_from_here

commands = typer.Typer()
FAILURES_SHOWN = 5


@commands.command("new-lab", rich_help_panel=WRITE)
def new_lab(
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="Two digits that no lab has, such as 30.")],
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Lower-case words with hyphens, such as weight-quantization.")
    ],
) -> None:
    """Lays out every file of a lab, with instructions in each."""
    with sentences():
        from rankzero.authoring import new_lab as authoring

        lab, files = authoring.new_lab(number, name)
    for file in files:
        console.print(f"wrote  {path_from_here(file)}")
    console.print(f"\nNext: rankzero verify-lab {lab.number}   (the steps are in CONTRIBUTING.md)")


@commands.command("verify-lab", rich_help_panel=WRITE)
def verify_lab(number: Annotated[str, typer.Argument(metavar="NUMBER", help="A lab's number, such as 02.")]) -> None:
    """Runs one lab's gates and lists what to write or correct next.

    Exit code 0 only if all pass.
    """
    os.environ["OMP_NUM_THREADS"] = "1"  # gates run beside each other
    failed = 0
    with sentences(), console.status("starting") as status:
        from rankzero.authoring import verify_lab as authoring

        for verdict in authoring.verify_lab(find_lab(number), lambda gate: status.update(gate)):
            mark = "[red]FAIL[/]" if verdict.failures else "[green]ok  [/]"
            console.print(f"{mark}  {verdict.gate:<22} {verdict.seconds:5.1f} s")
            for failure in verdict.failures[:FAILURES_SHOWN]:
                console.print(f"      {escape(failure)}")
            if (more := len(verdict.failures) - FAILURES_SHOWN) > 0:
                console.print(f"      and {more} more")
            failed += bool(verdict.failures)
    raise typer.Exit(int(failed > 0))
