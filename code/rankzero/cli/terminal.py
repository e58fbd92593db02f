"""Terminal: the console of all commands, and how user errors and Ctrl-C end a command."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn

import typer
import typer.core
from rich.console import Console
from rich.markup import escape

from rankzero.errors import UserError

console = Console(highlight=False, soft_wrap=True)
START = "Start with `make lab-02`, which is `rankzero run 02`; then its exercises: `rankzero start 02`."
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]


class Commands(typer.core.TyperGroup):
    """The group of all commands: Ctrl-C in one of them is one line and exit code 130."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            Console(stderr=True).print("\nStopped by Ctrl-C.")
            raise typer.Exit(130) from None


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
