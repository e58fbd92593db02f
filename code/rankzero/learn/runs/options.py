"""Command-line options of starters: types of numbers, and a parser that answers a mistake with one sentence."""

import argparse
import difflib
import math
from typing import Any, NoReturn

LARGEST = 10**12
PRECISIONS = ("fp32", "bf16", "fp16")


class StarterParser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one sentence and whose help shows every default. It has `--track`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Help, **settings)
        text = "also keep parameters, metrics and plots in a store of this tool, in the folder of --out: mlflow"
        self.add_argument("--track", choices=["mlflow"], metavar="TOOL", help=text)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses as argparse does; the error about an unknown option names the option with the closest spelling."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            known = [option for action in self._actions for option in action.option_strings]
            close = difflib.get_close_matches(unknown[0].split("=")[0], known, n=1)
            hint = f"did you mean {close[0]}?" if close else "--help lists the options."
            self.error(f"unknown option {unknown[0]}: {hint}")
        return parsed

    def error(self, message: str) -> NoReturn:
        """Exits with code 2 and one sentence."""
        self.exit(2, f"{self.prog}: {message.removeprefix('argument ')}\n")


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    def _get_help_string(self, action: argparse.Action) -> str | None:
        # "(default: None)" is useless: the help of such an option states its default in words.
        return action.help if action.default is None else super()._get_help_string(action)


def positive_int(text: str) -> int:
    """Returns a whole number of at least 1."""
    return _int(text, at_least=1)


def non_negative_int(text: str) -> int:
    """Returns a whole number of at least 0."""
    return _int(text, at_least=0)


def positive_float(text: str) -> float:
    """Returns a number above 0 in fp32's range."""
    number = _float(text)
    if not 0 < number <= 1e38:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0 and at most 1e38.")
    return number


def power_of_two(text: str) -> float:
    """Returns 2^k, from 2^-100 to 2^100: a factor that changes a number's exponent and none of its digits."""
    number = _float(text)
    if not 2.0**-100 <= number <= 2.0**100 or math.frexp(number)[0] != 0.5:
        raise argparse.ArgumentTypeError(f"{text!r} must be a power of two from 2^-100 to 2^100, such as 65536.")
    return number


def precision(text: str) -> str:
    """Returns fp32, bf16 or fp16."""
    if text not in PRECISIONS:
        raise argparse.ArgumentTypeError(f"{text!r} is no precision: use {', '.join(PRECISIONS)}.")
    return text


def non_negative_float(text: str) -> float:
    """Returns a number of at least 0 in fp32's range."""
    number = _float(text)
    if not 0 <= number <= 1e38:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of at least 0 and at most 1e38.")
    return number


def share(text: str) -> float:
    """Returns a number from 0 to 1."""
    number = _float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from 0 to 1.")
    return number


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _int(text: str, at_least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if number < at_least:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least {at_least}.")
    if number > LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at most {LARGEST}.")
    return number
