"""Terminal: the console of all commands, and how user errors and Ctrl-C end a command."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Annotated, Any, NoReturn, cast

import typer
import typer.core
from rich.console import Console
from rich.markup import escape

from rankzero.errors import UserError
from rankzero.learn.runs.quiet_start import stop

console = Console(highlight=False, soft_wrap=True)
START = "Start with `make lab-02`, which is `rankzero run 02`; then its exercises: `rankzero start 02`."
LEARN, MACHINE, TEACH, WRITE = "Learn", "This machine", "Grade a class", "Write labs and pages"  # panels of the help
SHOW_CURSOR = b"\x1b[?25h"  # which a spinner hides
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
        """Runs the command, which may clean up after Ctrl-C. While it imports, Ctrl-C ends the process at once."""
        interrupted = False

        def interrupt(number: int, frame: FrameType | None) -> None:
            nonlocal interrupted
            if _is_importing(frame):  # libraries swallow an exception there, turn it into another, or crash
                if console.is_terminal:
                    os.write(1, SHOW_CURSOR)
                stop(number, frame)
            interrupted = True
            raise KeyboardInterrupt

        before = signal.getsignal(signal.SIGINT)
        try:
            signal.signal(signal.SIGINT, interrupt)
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except BaseException as error:
            if not interrupted and not isinstance(error, KeyboardInterrupt):
                raise
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            print("\nStopped by Ctrl-C.", file=sys.stderr, flush=True)
            raise typer.Exit(130) from None
        finally:
            signal.signal(signal.SIGINT, before)


def _is_importing(frame: FrameType | None) -> bool:
    """Returns whether the code at `frame` runs because a module is being imported."""
    while frame and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


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
