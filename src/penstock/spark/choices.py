"""Options that are one of a few words."""

from collections.abc import Sequence

from penstock.errors import InputError


def check_choice(name: str, given: object, allowed: Sequence[str]) -> None:
    """Raise InputError unless an option has one of the values that it can have."""
    if given not in allowed:
        raise InputError(f"{name} is one of {', '.join(map(repr, allowed))}, not {given!r:.80}")
