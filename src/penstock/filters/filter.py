"""The filter: a conjunction of constraints, as a canonical value set for each attribute.

A filter is a box: the product of its value sets. So relations between filters are decided attribute by
attribute, and are exact wherever those between value sets are (see `valuesets`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from penstock.errors import FilterError, LimitError
from penstock.filters.constraint import Constraint
from penstock.filters.valuesets import ValueSet, intersection_of
from penstock.model.events import Event, Unsupported, as_event
from penstock.model.limits import CONSTRAINTS_MAX, PATTERNS_MAX
from penstock.model.values import Value

_LONG: Final = 16
"""Value sets of so many cuts are compared last: most often a short one has decided by then."""


class Filter:
    """A conjunction of constraints. Equal filters are those with equal canonical forms.

    `conditions` maps each constrained attribute to its value set, in the order of the names. No condition
    at all: the filter matches every event. `satisfiable` is false when it is known that none can match.
    """

    __slots__ = ("_hash", "conditions", "satisfiable")

    conditions: dict[str, ValueSet]
    satisfiable: bool
    _hash: int | None

    def __init__(self, constraints: Iterable[Constraint] = ()) -> None:
        conditions: dict[str, ValueSet] = {}
        several: dict[str, list[ValueSet]] = {}
        for constraint in constraints:
            if not isinstance(constraint, Constraint):
                raise FilterError(f"a filter is made of constraints, not of {type(constraint).__name__}")
            name, states = constraint.attribute, constraint.states
            known = conditions.setdefault(name, states)
            if known is not states:
                several.setdefault(name, [known]).append(states)
        for name, sets in several.items():
            # Before they are compared with one another, which takes the square of their number.
            check_patterns(name, sets)
            conditions[name] = intersection_of(sets)
        satisfiable = all(states.cuts for states in conditions.values())
        check_size(conditions)
        _fill(self, conditions if satisfiable else None)

    def matches(self, event: Event | Mapping[str, object], *, unsupported: Unsupported = "refuse") -> bool:
        """Whether every constraint is true of the event."""
        attributes = as_event(event, unsupported).attributes
        return self.satisfiable and self.admits(attributes)

    def admits(self, attributes: Mapping[str, Value]) -> bool:
        """Like `matches`, for a satisfiable filter and attributes known to be flat and valid."""
        for name, states in self.conditions.items():  # noqa: SIM110 - twice as fast as all(…)
            if not states.admits(attributes.get(name)):
                return False
        return True

    def covers(self, other: "Filter") -> bool:
        """Whether every event that matches `other` surely matches this filter."""
        if not other.satisfiable:
            return True
        if not self.satisfiable:
            return False
        theirs = other.conditions
        for name, states in self.conditions.items():
            known = theirs.get(name)
            if known is None or not states.covers(known):
                return False
        return True

    def overlaps(self, other: "Filter") -> bool:
        """Whether an event may match both."""
        if not (self.satisfiable and other.satisfiable):
            return False
        theirs = other.conditions
        long: list[tuple[ValueSet, ValueSet]] = []
        for name, states in self.conditions.items():
            known = theirs.get(name)
            if known is None:
                continue
            if len(states.cuts) + len(known.cuts) > _LONG:
                long.append((states, known))
            elif not states.overlaps(known):
                return False
        return all(states.overlaps(known) for states, known in long)

    def intersection(self, other: "Filter") -> "Filter":
        """The filter of the events that match both."""
        if not (self.satisfiable and other.satisfiable):
            return NEVER
        conditions = dict(self.conditions)
        for name, states in other.conditions.items():
            known = conditions.get(name)
            both = states if known is None else known.intersection(states)
            if not both.cuts:
                return NEVER
            conditions[name] = both
        return box(conditions)

    def replace(self, name: str, states: ValueSet | None) -> "Filter":
        """The same filter with another value set, or none, for one attribute."""
        conditions = dict(self.conditions)
        if states is None:
            conditions.pop(name, None)
        else:
            conditions[name] = states
        return box(conditions)

    def sort_key(self) -> tuple[object, ...]:
        """Orders filters in some total way: few constraints first, then by name and value."""
        items = self.conditions.items()
        return len(items), [(name, states.sort_key()) for name, states in items]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        return self.satisfiable == other.satisfiable and self.conditions == other.conditions

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.satisfiable, *self.conditions.items()))
        return self._hash

    def to_sql(self) -> str:
        """Write the filter as the boolean part of SQL's WHERE."""
        from penstock.filters.languages import sql

        return sql.write_filter(self)

    def __str__(self) -> str:
        return self.to_sql()

    def __repr__(self) -> str:
        return f"<Filter {self}>"

    def __reduce__(self) -> tuple[object, ...]:
        return (box, (self.conditions,)) if self.satisfiable else (Filter, (), (None, {"satisfiable": False}))


def _fill(target: Filter, conditions: dict[str, ValueSet] | None) -> None:
    if conditions is None:
        target.conditions, target.satisfiable, target._hash = {}, False, None
        return
    if len(conditions) > 1:
        conditions = {name: conditions[name] for name in sorted(conditions)}
    target.conditions, target.satisfiable, target._hash = conditions, True, None


def check_size(conditions: dict[str, ValueSet]) -> None:
    """Raise when a filter is larger than one that people write may be.

    Boxes that relations work with may be: they come from several filters.
    """
    if len(conditions) > CONSTRAINTS_MAX:
        what = f"a filter constrains {len(conditions):,} attributes"
        raise LimitError(what, "CONSTRAINTS_MAX", CONSTRAINTS_MAX)
    for name, states in conditions.items():
        if states.required or states.forbidden:
            check_patterns(name, [states])


def check_patterns(name: str, sets: Sequence[ValueSet]) -> None:
    """Raise when all that must hold of one attribute has too many different patterns."""
    count = len({pattern for states in sets for pattern in states.required + states.forbidden})
    if count > PATTERNS_MAX:
        what = f"a filter has {count:,} patterns on {name[:40]!r}"
        raise LimitError(what, "PATTERNS_MAX", PATTERNS_MAX)


def box(conditions: dict[str, ValueSet]) -> Filter:
    """The filter with these value sets, none of them empty."""
    made = Filter.__new__(Filter)
    _fill(made, conditions)
    return made


def ordered_box(conditions: dict[str, ValueSet]) -> Filter:
    """Like `box`, for conditions that are in the order of their names already."""
    made = Filter.__new__(Filter)
    made.conditions, made.satisfiable, made._hash = conditions, True, None
    return made


def working_box(known: Filter, name: str, states: ValueSet) -> Filter:
    """A filter with another value set for one attribute, quickly: for working with, not for keeping.

    Its conditions are in no order, so it must not be compared by hash or printed.
    """
    made = Filter.__new__(Filter)
    made.conditions, made.satisfiable, made._hash = {**known.conditions, name: states}, True, None
    return made


ALWAYS: Final = Filter()
"""The filter that every event matches."""

NEVER: Final = Filter.__new__(Filter)
"""The filter that no event can match."""
_fill(NEVER, None)
