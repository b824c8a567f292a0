"""What an event looks like: the names of its attributes, and the places of its lists."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from penstock.model.events import is_list
from penstock.model.limits import NESTING_MAX

_LOOKED_AT: Final = 16
"""Elements of a list that are looked at for lists in them."""


def names_in(event: Mapping[Any, object], prefix: str = "", depth: int = 0) -> Iterator[str]:
    """The names of an event's attributes, whether their values have a family or not."""
    for name, value in event.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and value and depth < NESTING_MAX:
            yield from names_in(value, path + ".", depth + 1)
        else:
            yield path


def lists_in(event: Mapping[Any, object], prefix: str = "", depth: int = 0) -> Iterator[str]:
    """The places of an event's lists that have elements: `rows`, and of those in them: `rows[].cells`."""
    for name, value in event.items():
        yield from _lists_at(f"{prefix}{name}", value, depth)


def _lists_at(path: str, value: object, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping):
        if depth < NESTING_MAX:
            yield from lists_in(value, path + ".", depth + 1)
    elif is_list(value) and any(element is not None for element in value):
        yield path
        for element in islice(value, _LOOKED_AT) if depth < NESTING_MAX else ():
            yield from _lists_at(f"{path}[]", element, depth + 1)
