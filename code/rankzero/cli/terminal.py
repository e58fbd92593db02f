"""Terminal: the console of all commands, and how user errors end a command."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from rankzero.errors import UserError

console = Console(highlight=False, soft_wrap=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """Ends the command with one sentence and exit code 2 on a UserError in the context, or if a package is missing."""
    try:
        yield
    except UserError as error:
        fail(str(error))
    except ModuleNotFoundError as error:
        fail(f"this command needs {error.name}, which `pip install -r requirements.txt` or `make site` installs.")


def fail(sentence: str, code: int = 2) -> NoReturn:
    """Ends the command with one sentence on stderr."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"rankzero: {escape(sentence)}")
    raise typer.Exit(code)
