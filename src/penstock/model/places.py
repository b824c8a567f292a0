"""Places of values: attributes of events, and attributes of the elements of lists.

An element of a list is looked at as an event: a record is one, and any other element has one attribute,
`this`. So a place is a name, or the names of lists, the outermost first, and the name that an element has.
Texts write it with brackets: `items[].sku`, and `tags[]` for `this`.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

Place: TypeAlias = str | tuple[str, ...]
"""An attribute of events by its name; of elements, the names of their lists and its own."""

ELEMENT: Final = "this"
"""The attribute that an element has which is no record."""

_IN_LIST: Final = "[]"
_REMEMBERED: Final = 1_024


def inside(name: str, place: Place) -> tuple[str, ...]:
    """The place of what elements of a list have at a place."""
    return (name, place) if isinstance(place, str) else (name, *place)


def written(place: Place) -> str:
    """A place as texts write it."""
    if isinstance(place, str):
        return place
    text, *inner = place
    for name in inner:
        text += _IN_LIST if name == ELEMENT else f"{_IN_LIST}.{name}"
    return text


def is_inside(text: str) -> bool:
    """Whether a text names a place in a list."""
    return _IN_LIST in text


def outermost(text: str) -> str:
    """The attribute of events that a place, as texts write it, is or is in."""
    return text.partition(_IN_LIST)[0]


def place_above(text: str) -> str:
    """What stands before the own name of a place, as texts write it: `items[].` before `sku`."""
    above, bracket, _name = text.rpartition(_IN_LIST + ".")
    return above + bracket


def in_order(places: Iterable[Place]) -> list[Place]:
    """Places sorted: attributes of events first."""
    return sorted(places, key=lambda place: (1, place) if isinstance(place, tuple) else (0, (place,)))


def split(places: Collection[Place]) -> tuple[Collection[str], Mapping[str, frozenset[Place]]]:
    """The attributes of events among places, and the places that elements have, by list."""
    return _split(places if isinstance(places, frozenset) else frozenset(places))


@lru_cache(maxsize=_REMEMBERED)
def _split(places: frozenset[Place]) -> tuple[frozenset[str], Mapping[str, frozenset[Place]]]:
    found: dict[str, set[Place]] = {}
    for place in places:
        if isinstance(place, tuple):
            name, *inner = place
            found.setdefault(name, set()).add(inner[0] if len(inner) == 1 else tuple(inner))
    names = frozenset(place for place in places if isinstance(place, str))
    return names, {name: frozenset(inner) for name, inner in found.items()}
