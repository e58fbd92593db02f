"""Terminal: the console of all commands, and how user errors and Ctrl-C end a command."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn, cast

import typer
import typer.core
from rich.console import Console
from rich.markup import escape

from rankzero.errors import UserError

console = Console(highlight=False, soft_wrap=True)
START = "Start with `make lab-02`, which is `rankzero run 02`; then its exercises: `rankzero start 02`."
LEARN, MACHINE, TEACH, WRITE = "Learn", "This machine", "Grade a class", "Write labs and pages"  # panels of the help
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]


class Commands(typer.core.TyperGroup):
    """The group of all commands, listed by panel: Ctrl-C in one of them is one line and exit code 130."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of all commands in the order of the help's panels."""
        panels, commands = [LEARN, MACHINE, TEACH, WRITE], cast(dict[str, typer.core.TyperCommand], self.commands)
        return sorted(super().list_commands(ctx), key=lambda name: panels.index(str(commands[name].rich_help_panel)))

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the options of `rankzero` itself."""
        return _flags_without_type(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns the command of a name, or None."""
        command = super().get_command(ctx, cmd_name)
        if command:
            _flags_without_type(command.get_params(ctx))
        return command

    def invoke(self, ctx: Any) -> Any:
        """Runs the command. Until then Ctrl-C ends the process at once; a command may have something to clean up."""
        before = signal.getsignal(signal.SIGINT)
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            return super().invoke(ctx)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, before)
            Console(stderr=True).print("\nStopped by Ctrl-C.")
            raise typer.Exit(130) from None
        finally:
            signal.signal(signal.SIGINT, before)


def _flags_without_type(options: list[Any]) -> list[Any]:
    """Makes the help show no `<bool>` beside a flag, which takes no value; returns the options."""
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


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
    errors = Console(stderr=True, highlight=False)
    errors.print(f"rankzero: {escape(sentence)}", soft_wrap=not errors.is_terminal)  # a terminal breaks lines in words
    raise typer.Exit(code)
