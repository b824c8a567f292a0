"""What the parsers of all commands are made of, and how commands end."""

import argparse
from collections.abc import Callable
from typing import Final

EXIT_FAILED: Final = 1
EXIT_BAD_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130

_SECONDS_MAX: Final = 1e9
"""Longer than anybody waits, and short enough for every clock."""

Commands = argparse._SubParsersAction  # the only name argparse has for it


def add_command(
    commands: "Commands[argparse.ArgumentParser]", name: str, summary: str, examples: str = ""
) -> argparse.ArgumentParser:
    """The parser of a new command, with its examples at the end of its help."""
    return commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


FAMILY_HELP = "read an attribute as bool, number, string, time or list; repeat for more"
"""The help text of --family, which several commands have."""


def command(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """A command of the program, that is imported when it is called, so that the program starts quickly."""

    def run(options: argparse.Namespace) -> int:
        from importlib import import_module

        status: int = getattr(import_module(f"penstock.{module}"), function)(options)
        return status

    return run


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number above 0 is needed, not {text!r}")
    return int(text)


def scale(text: str) -> float:
    """A share above 0."""
    number = share(text)
    if number == 0:
        raise argparse.ArgumentTypeError("a share above 0 is needed")
    return number


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"a share between 0 and 1 is needed, not {text!r}")
    return number


def seconds(text: str) -> float:
    """A time above 0, in seconds."""
    number = pause(text)
    if number == 0:
        raise argparse.ArgumentTypeError("a number of seconds above 0 is needed")
    return number


def pause(text: str) -> float:
    """A time in seconds, or none."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < _SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"a number of seconds is needed, not {text!r}")
    return number
