"""The command `rankzero figures`."""

from pathlib import Path
from typing import Annotated

import typer

from rankzero.cli.terminal import WRITE, console, sentences
from rankzero.curriculum import path_from_here
from rankzero.errors import UserError

commands = typer.Typer()


@commands.command(rich_help_panel=WRITE)
def figures(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Figures to draw; all if none.")
    ] = None,
    page: Annotated[str | None, typer.Option(help="Only figures of this page, such as memory.")] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also draw bitmaps to look at, as FOLDER/NAME.png.")
    ] = None,
) -> None:
    """Draws the figures of pages and writes those that changed.

    Example: rankzero figures --page memory --png /tmp/figures
    """
    with sentences(), console.status("drawing") as status:
        from rankzero.figures.pictures import bitmap, write_pictures
        from rankzero.figures.registry import all_figures

        known = all_figures()
        for name in names or []:
            if name not in known:
                raise UserError(f"there is no figure {name!r}: use one of {', '.join(known)}.")
        chosen = [figure for figure in known.values() if figure.name in (names or known)]
        chosen = [figure for figure in chosen if page in (None, figure.page, Path(figure.page).stem)]
        if not chosen:
            pages = sorted({Path(figure.page).stem for figure in known.values()})
            raise UserError(f"no figure is on a page {page!r}: use one of {', '.join(pages)}.")
        for figure in chosen:
            status.update(f"drawing {figure.name}")
            for file in [*write_pictures(figure), *([bitmap(figure, png)] if png else [])]:
                console.print(f"wrote  {path_from_here(file)}")
        console.print(f"{len(chosen)} figures drawn.")
