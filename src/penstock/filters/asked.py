"""What filters ask for: the attributes that they name, and the families that they compare them with."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from penstock.filters import lists
from penstock.filters.filter import Filter
from penstock.filters.valuesets import Presence
from penstock.model.places import Place
from penstock.model.values import Family

Kind: TypeAlias = Family | Presence

Lists: TypeAlias = tuple[str, ...]
"""The names of the lists that elements are in, the outermost first."""


def attributes_in(f: Filter) -> list[str]:
    """The attributes that a filter names, also in its clauses."""
    return list(dict.fromkeys(name for box in f.boxes() for name in box.conditions))


def families_in(f: Filter) -> set[tuple[str, Family]]:
    """The families that a filter compares attributes with, also in its clauses."""
    items = (item for box in f.boxes() for item in box.conditions.items())
    return {(name, states.kind) for name, states in items if isinstance(states.kind, Family)}


def kinds_in(filters: Iterable[Filter]) -> dict[str, set[Kind]]:
    """What some alternatives ask for of each attribute: families, presence, absence. NaN is a number."""
    found: dict[str, set[Kind]] = {}
    for f in filters:
        for box in f.boxes():
            for name, states in box.conditions.items():
                kind = Family.NUMBER if states.kind is Presence.NAN else states.kind
                found.setdefault(name, set()).add(kind)
    return found


def conditions_inside(
    filters: Iterable[Filter], above: Lists = ()
) -> Iterator[tuple[Lists, dict[str, set[Kind]]]]:
    """What some alternatives ask of elements, condition by condition, those inside others too."""
    for f in filters:
        for box in f.boxes():
            for name, states in box.conditions.items():
                if states.kind is not Family.LIST:
                    continue
                for asked in (*states.required, *states.forbidden):
                    alternatives = lists.filters_of(asked)
                    yield (*above, name), kinds_in(alternatives)
                    yield from conditions_inside(alternatives, (*above, name))


def families_at(filters: Iterable[Filter]) -> dict[Place, set[Family]]:
    """The families that some filters compare attributes with, and those of elements of lists."""
    given = list(filters)
    found: dict[Place, set[Family]] = {}
    everywhere = [((), kinds_in(given)), *conditions_inside(given)]
    for above, asked in everywhere:
        for name, kinds in asked.items():
            families = {kind for kind in kinds if isinstance(kind, Family)}
            if families:
                found.setdefault((*above, name) if above else name, set()).update(families)
    return found


def times_in(filters: Iterable[Filter]) -> set[Place]:
    """The places that some filters compare with times, and none with a string."""
    asked = families_at(filters)
    return {place for place, kinds in asked.items() if Family.TIME in kinds and Family.STRING not in kinds}
