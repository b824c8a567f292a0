"""The filter: a conjunction of constraints, as a canonical value set for each attribute.

A filter is a box: the product of its value sets. So relations between filters are decided attribute by
attribute, and are exact wherever those between value sets are (see `valuesets`).

A few filters are more than a box: they have clauses as well. A clause is a disjunction of conditions, one of
which must hold: `a != 1 or b != 1`, which excludes a pair. Most clauses are expanded into several boxes;
those that would become too many are kept (`clauses`). Relations take such a filter for its box where that is
safe, and look at its clauses one by one: they are sound then, and not complete.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from penstock.errors import FilterError, LimitError
from penstock.filters import html
from penstock.filters.constraint import Constraint
from penstock.filters.valuesets import ValueSet, intersection_of
from penstock.model.events import Event, Unsupported, as_event
from penstock.model.limits import CONSTRAINTS_MAX, PATTERNS_MAX
from penstock.model.values import Value

Clause = tuple["Filter", ...]
"""Filters of one condition each, in their order; one of them must match."""

_ALIKE: Final = 8
"""Clauses that begin with the same attribute of which one is looked for that implies another."""

_LONG: Final = 16
"""Value sets of so many cuts are compared last: most often a short one has decided by then."""


class Filter:
    """A conjunction of constraints. Equal filters are those with equal canonical forms.

    `conditions` maps each constrained attribute to its value set, in the order of the names. No condition
    at all: the filter matches every event. `satisfiable` is false when it is known that none can match.
    `clauses`, if there are any, must all hold as well.
    """

    __slots__ = ("_hash", "clauses", "conditions", "satisfiable")

    conditions: dict[str, ValueSet]
    clauses: tuple[Clause, ...]
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
        for name, states in self.conditions.items():
            if not states.admits(attributes.get(name)):
                return False
        return not self.clauses or all(
            any(alternative.admits(attributes) for alternative in clause) for clause in self.clauses
        )

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
        return not self.clauses or _are_implied(self.clauses, other)

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
        if not all(states.overlaps(known) for states, known in long):
            return False
        return _allow(self.clauses, other) and _allow(other.clauses, self)

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
        if self.clauses or other.clauses:
            return with_clauses(conditions, {*self.clauses, *other.clauses})
        return box(conditions)

    def replace(self, name: str, states: ValueSet | None) -> "Filter":
        """The same filter with another value set, or none, for one attribute."""
        conditions = dict(self.conditions)
        if states is None:
            conditions.pop(name, None)
        else:
            conditions[name] = states
        return with_clauses(conditions, self.clauses) if self.clauses else box(conditions)

    def boxes(self) -> "Iterator[Filter]":
        """The box, and each alternative of the clauses: together they name all that the filter asks about."""
        yield self.without_clauses()
        yield from chain.from_iterable(self.clauses)

    def without_clauses(self) -> "Filter":
        """The box alone: a filter that covers this one."""
        return box(self.conditions) if self.clauses else self

    def sort_key(self) -> tuple[object, ...]:
        """Orders filters in some total way: few constraints first, then by name and value."""
        items = self.conditions.items()
        key = len(items), [(name, states.sort_key()) for name, states in items]
        return (*key, [_clause_key(clause) for clause in self.clauses]) if self.clauses else key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        return (
            self.satisfiable == other.satisfiable
            and self.conditions == other.conditions
            and self.clauses == other.clauses
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.satisfiable, *self.conditions.items(), *self.clauses))
        return self._hash

    def to_sql(self) -> str:
        """Write the filter as the boolean part of SQL's WHERE."""
        from penstock.filters.languages import sql

        return sql.write_filter(self)

    def __str__(self) -> str:
        return self.to_sql()

    def __repr__(self) -> str:
        return f"<Filter {self}>"

    def _repr_html_(self) -> str:
        if not self.satisfiable:
            return html.paragraph("false: no event can match")
        return html.table(("matches where",), [(self.to_sql(),)])

    def __reduce__(self) -> tuple[object, ...]:
        if self.clauses:
            return with_clauses, (self.conditions, self.clauses)
        return (box, (self.conditions,)) if self.satisfiable else (Filter, (), (None, {"satisfiable": False}))


def _are_implied(clauses: tuple[Clause, ...], special: Filter) -> bool:
    """Whether all clauses surely hold wherever a filter matches."""
    known = {*special.clauses}
    by_name: dict[str, list[Clause]] = {}
    for clause in special.clauses:
        # A clause that implies another has no attributes but the other's.
        by_name.setdefault(next(iter(clause[0].conditions)), []).append(clause)
    return all(
        clause in known
        or any(alternative.covers(special) for alternative in clause)
        or any(_implies(other, clause) for other in _alike(clause, by_name))
        for clause in clauses
    )


def _alike(clause: Clause, by_name: dict[str, list[Clause]]) -> Iterator[Clause]:
    names = dict.fromkeys(name for alternative in clause for name in alternative.conditions)
    return chain.from_iterable(by_name.get(name, ())[:_ALIKE] for name in names)


def _implies(special: Clause, general: Clause) -> bool:
    return all(any(one.covers(alternative) for one in general) for alternative in special)


def _allow(clauses: tuple[Clause, ...], other: Filter) -> bool:
    """Whether each clause by itself may hold where another filter matches."""
    theirs = other.conditions
    for clause in clauses:
        for alternative in clause:
            ((name, states),) = alternative.conditions.items()
            known = theirs.get(name)
            if known is None or states.overlaps(known):
                break
        else:
            return False
    return True


def _clause_key(clause: Clause) -> list[tuple[object, ...]]:
    return [alternative.sort_key() for alternative in clause]


def _fill(target: Filter, conditions: dict[str, ValueSet] | None) -> None:
    if conditions is None:
        target.conditions, target.clauses, target.satisfiable, target._hash = {}, (), False, None
        return
    if len(conditions) > 1:
        conditions = {name: conditions[name] for name in sorted(conditions)}
    target.conditions, target.clauses, target.satisfiable, target._hash = conditions, (), True, None


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
    made.conditions, made.clauses, made.satisfiable, made._hash = conditions, (), True, None
    return made


def working_box(known: Filter, name: str, states: ValueSet) -> Filter:
    """A filter with another value set for one attribute, quickly: for working with, not for keeping.

    It has no clauses, so that it covers the filter that it comes from. Its conditions are in no order, so it
    must not be compared by hash or printed.
    """
    made = Filter.__new__(Filter)
    made.conditions, made.clauses = {**known.conditions, name: states}, ()
    made.satisfiable, made._hash = True, None
    return made


def with_clauses(conditions: dict[str, ValueSet], clauses: Iterable[Clause]) -> Filter:
    """The filter with these value sets and these clauses.

    A predicate brings it into canonical form: see `penstock.filters.clauses`.
    """
    made = box(conditions)
    made.clauses = tuple(sorted(clauses, key=_clause_key))
    return made


ALWAYS: Final = Filter()
"""The filter that every event matches."""

NEVER: Final = Filter.__new__(Filter)
"""The filter that no event can match."""
_fill(NEVER, None)
