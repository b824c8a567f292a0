"""What filters ask of lists: that some element is so, or that none is.

An element is looked at as an event is: a record is one, and any other value is the event whose only
attribute, `this`, has it. So what a condition asks of elements is a predicate, and relations between
conditions follow from those between predicates:

    any(P)     some element matches P
    none(P)    no element matches P; both are true of lists only

`any(P)` covers `any(Q)` if P covers Q; `none(P)` covers `none(Q)` if Q covers P; a list that satisfies
`any(Q)` and `none(P)` cannot be where P covers Q. Two `any` never exclude one another, because one list may
have an element for each.

A value set of lists (`valuesets`) holds such conditions as it holds the patterns of strings: those required,
and those forbidden, each by its canonical text. A forbidden one is a single filter, because `none(P or Q)` is
`none(P)` and `none(Q)`. Relations are sound. They compare filter by filter, so a cover that takes several
filters together, or a list without elements to choose from, may go unnoticed.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import FilterError, LimitError
from penstock.model.events import Event
from penstock.model.limits import ELEMENT_FILTERS_MAX
from penstock.model.places import ELEMENT as ELEMENT
from penstock.model.values import List, Value

if TYPE_CHECKING:
    from penstock.filters.filter import Filter
    from penstock.filters.predicate import Predicate

ANY: Final = "true"
"""What every element satisfies."""

_REMEMBERED: Final = 4_096

Condition = str
"""What elements are asked for: the canonical text of a predicate."""


def condition(predicate: "Predicate") -> Condition:
    """A predicate about elements as value sets hold it."""
    _check(predicate)
    asked = predicate.to_sql()
    _remember(asked, predicate)
    return asked


def _check(predicate: "Predicate") -> None:
    if len(predicate.filters) > ELEMENT_FILTERS_MAX:
        what = f"a condition on elements has {len(predicate.filters):,} alternatives"
        raise LimitError(what, "ELEMENT_FILTERS_MAX", ELEMENT_FILTERS_MAX)
    if any(f.clauses for f in predicate.filters):
        raise FilterError("a condition on elements has more alternatives than can be written out")


def alternatives(predicate: "Predicate") -> tuple[Condition, ...]:
    """A predicate about elements, filter by filter: no element satisfies it if none satisfies one of
    these."""
    from penstock.filters.predicate import of_canonical

    _check(predicate)
    return tuple(sorted(condition(of_canonical((f,))) for f in predicate.filters))


def predicate_of(asked: Condition) -> "Predicate":
    """The predicate that a condition is."""
    known = _PREDICATES.get(asked)
    if known is None:
        from penstock.filters.languages.sql import parse

        known = parse(asked)
        _remember(asked, known)
    return known


_PREDICATES: "Final[dict[Condition, Predicate]]" = {}
"""Conditions of late, which need not be read."""


def _remember(asked: Condition, predicate: "Predicate") -> None:
    if len(_PREDICATES) >= _REMEMBERED:
        _PREDICATES.clear()
    _PREDICATES[asked] = predicate


def text_of(asked: object) -> Condition:
    """The text of what elements are asked for, however a constraint has it."""
    if isinstance(asked, str):
        return asked
    from penstock.filters.parsing import as_predicate

    return as_predicate(asked).to_sql()  # type: ignore[arg-type]  # which refuses what it does not know


def filters_of(asked: Condition) -> "tuple[Filter, ...]":
    """The alternatives of a condition."""
    return predicate_of(asked).filters


def attributes_of(element: Value | Event) -> Mapping[str, Value]:
    """An element as an event has its attributes."""
    return element.attributes if isinstance(element, Event) else {ELEMENT: element}


def admits(required: Iterable[Condition], forbidden: Iterable[Condition], elements: List) -> bool:
    """Whether a list has an element for each required condition, and none for a forbidden one."""
    return all(_has(asked, elements) for asked in required) and not any(
        _has(asked, elements) for asked in forbidden
    )


def _has(asked: Condition, elements: List) -> bool:
    filters = filters_of(asked)
    for element in elements:
        attributes = attributes_of(element)
        if any(f.admits(attributes) for f in filters):
            return True
    return False


def covers(general: Collection[Condition], special: Condition) -> bool:
    """Whether every element that satisfies a condition surely satisfies one of several."""
    if special in general:
        return True
    return len(general) > 0 and _covers(tuple(general), special)


@lru_cache(maxsize=_REMEMBERED)
def _covers(general: tuple[Condition, ...], special: Condition) -> bool:
    known = [f for asked in general for f in filters_of(asked)]
    return all(any(f.covers(one) for f in known) for one in filters_of(special))


def simplified(
    required: Iterable[Condition], forbidden: Iterable[Condition]
) -> tuple[tuple[Condition, ...], tuple[Condition, ...]] | None:
    """Both without what follows from the others, in their order; None where no list is so."""
    no = _least(forbidden)
    yes = [asked for asked in sorted(set(required)) if asked != ANY]
    if ANY in no or any(covers(no, asked) for asked in yes):
        return None
    kept: list[Condition] = []
    for at, asked in enumerate(yes):
        # Of two that say the same, the first stays.
        others = [*kept, *yes[at + 1 :]]
        if not any(covers([asked, *no], other) for other in others):
            kept.append(asked)
    return tuple(kept), no


def _least(forbidden: Iterable[Condition]) -> tuple[Condition, ...]:
    """The forbidden conditions that no other includes."""
    given = sorted(set(forbidden))
    kept: list[Condition] = []
    for at, asked in enumerate(given):
        if not covers([*kept, *given[at + 1 :]], asked):
            kept.append(asked)
    return tuple(kept)


def member_of(asked: Condition) -> Any:
    """The value that a condition asks an element to be, or None where it asks for something else."""
    filters = filters_of(asked)
    if len(filters) != 1 or filters[0].conditions.keys() != {ELEMENT}:
        return None
    from penstock.filters.constraint import from_point

    states = filters[0].conditions[ELEMENT]
    if not states.is_point or states.forbidden:
        return None
    return from_point(states.kind, states.cuts[0])  # type: ignore[arg-type]
