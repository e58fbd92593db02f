"""What all commands share: the console, paths as a person would write them, and mistakes told in one sentence."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from rankzero.curriculum import ROOT, ManifestError

console = Console(highlight=False, soft_wrap=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """Turns the mistakes of a user into one sentence and exit code 2, and Ctrl-C into exit code 130."""
    from rankzero.claims.claim import ClaimError
    from rankzero.errors import UserError
    from rankzero.exercises.study.progress import ProgressError
    from rankzero.exercises.study.workspace import WorkspaceError

    try:
        yield
    except (ClaimError, LookupError, ManifestError, ProgressError, UserError, WorkspaceError) as error:
        fail(str(error.args[0]))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def fail(sentence: str, code: int = 2) -> NoReturn:
    """Ends the command with one sentence on stderr."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"rankzero: {escape(sentence)}")
    raise typer.Exit(code)


def relative(path: Path) -> str:
    """The path from here, for somebody in the repository; the whole path for anybody else."""
    return os.path.relpath(path) if Path.cwd().is_relative_to(ROOT) else str(path)
