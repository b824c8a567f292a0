"""What filters ask for: the attributes that they name, and the families that they compare them with."""

from collections.abc import Iterable
from typing import TypeAlias

from penstock.filters.filter import Filter
from penstock.filters.valuesets import Presence
from penstock.model.values import Family

Kind: TypeAlias = Family | Presence


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


def times_in(filters: Iterable[Filter]) -> set[str]:
    """The attributes that some filters compare with times, and none with a string."""
    asked = kinds_in(filters)
    return {name for name, kinds in asked.items() if Family.TIME in kinds and Family.STRING not in kinds}
