"""Which predicates may cover another: found by matching, as an event finds its filters.

A filter is a box: it covers another one if it contains the other's value set on every attribute
(`penstock.filters.filter`). So each predicate is indexed as a filter over *coordinates*, and looked up as an
event that has these coordinates:

    low, high, middle    values of its value set (`penstock.filters.witnesses`), which its covers admit
    point                the value, where there is only one: `=` is found by hashing
    gone                 the filter asks the attribute to be absent
    wide                 the value set lacks more of its family than a few single values

An interval that admits low and high contains everything between. So for intervals and single values, the
candidates are exactly the covers. For lists and patterns there are a few more.

A set that lacks only single values (`!=`, `not in`) admits nearly every witness. But it covers only sets that
lack the same values. So it is stored under one of its missing values, the rarest, and found through the
values that the other predicate lacks.

A condition on a list that asks for one kind of element, `any(items where qty > 5)`, covers another if what it
asks of an element covers what the other asks. So both have coordinates of the element's attributes, and are
found as intervals are. Predicates that ask more of a list are looked up in a table that has conditions on
lists as they are.

A predicate with several filters, or with clauses, may cover what none of its filters covers alone. Such
predicates are indexed unchanged, and looked up with events that match the other predicate.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import nan
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from penstock.filters import lists
from penstock.filters.filter import Filter, box
from penstock.filters.order import LEAST, Point
from penstock.filters.predicate import Predicate
from penstock.filters.valuesets import EXISTS, Presence, ValueSet
from penstock.filters.witnesses import Witnesses, excluded_points, is_open, witnesses
from penstock.matching.columns import ColumnsBuilder
from penstock.matching.computed import Computed
from penstock.matching.encode import BatchBuilder
from penstock.model.limits import NAME_LENGTH_MAX
from penstock.model.values import Family, Value

if TYPE_CHECKING:
    from penstock.matching.parts import Found, Part

Numbers = NDArray[np.int64]
Row = dict[str, Value]

_LOW, _HIGH, _MIDDLE, _POINT, _GONE, _WIDE = "lhmpgw"
"""The coordinates; each stands before the attribute's name."""

_ELEMENT: Final = "\0[]\0"
"""Stands between the names of a list and of an attribute of its elements."""

_IS_TRUE: Final = ValueSet(Family.BOOL, (True,))

_FEW: Final = 128
"""So few predicates are not indexed: each may cover each."""

_LONG: Final = 64
"""The middle coordinate is not asked for by lists of more cuts: they would take up much of the table."""

_RARE: Final = 64
"""A value that more predicates lack does not tell them apart."""

_LACKED: Final = 16
"""Values looked at, of those that a predicate lacks, for the rarest."""

_ROWS: Final = 64
"""Predicates that are looked up first; then more or fewer, as long as much is found."""

_SMALL: Final = 128
"""So few numbers are compared quicker as Python's sets."""

_FOUND: Final = 2**20
"""So many numbers of predicates should be found at once."""


class CoverIndex:
    """Predicates, by what they may cover. `candidates` finds them, in no order.

    Building it and looking up cost about as much as compiling a matcher and matching as many events.
    """

    def __init__(self, generals: Sequence[Predicate]) -> None:
        self.size = len(generals)
        self._lacking: dict[tuple[str, Point], list[int]] = {}
        boxes: list[tuple[int, Filter]] = []
        others: list[tuple[int, Filter]] = []
        if self.size > _FEW:
            for number, predicate in enumerate(generals):
                if len(predicate.filters) == 1 and not predicate.filters[0].clauses:
                    boxes.append((number, predicate.filters[0]))
                else:
                    others += ((number, f) for f in predicate.filters)
        self._boxes = _Table(self._asking(boxes))
        self._lists = _Table([_with_lists(number, f) for number, f in boxes if _inner(f)])
        self._others = _Table(others)

    def candidates(self, specials: Iterable[Predicate]) -> Iterator[Numbers]:
        """For each predicate the numbers of all that may cover it: of some that do not, too.

        What can match nothing is covered by all.
        """
        if self.size <= _FEW:
            everything = np.arange(self.size)
            yield from (everything for _ in specials)
            return
        rows = _ROWS
        waiting: list[Predicate] = []
        for special in specials:
            waiting.append(special)
            if len(waiting) >= rows:
                total = 0
                for found in self._found(waiting):
                    total += len(found)
                    yield found
                rows = max(1, min(4 * rows, _FOUND * rows // (total + 1)))
                waiting = []
        yield from self._found(waiting)

    def _asking(self, boxes: list[tuple[int, Filter]]) -> list[tuple[int, Filter]]:
        """Filters as filters over coordinates."""
        common = Counter(key for _, f in boxes for key in _lacked(f))
        asking = []
        for number, f in boxes:
            conditions: dict[str, ValueSet] = {}
            for name, states in f.conditions.items():
                inner = inner_of(name, states)
                if inner is None:
                    _ask(name, states, conditions)
                else:
                    conditions[_LOW + name] = EXISTS
                    for coordinate, asked in inner.items():
                        _ask(coordinate, asked, conditions)
            key = min(_lacked(f), key=common.__getitem__, default=None)
            if key is not None and common[key] <= _RARE:
                self._lacking.setdefault(key, []).append(number)
                conditions[_WIDE + key[0]] = _IS_TRUE
            asking.append((number, box(conditions)))
        return asking

    def _found(self, specials: list[Predicate]) -> Iterator[Numbers]:
        """What is found for some predicates."""
        boxes = self._boxes.match_all(specials, _rows_of)
        lists = self._lists.match_all([one for one in specials if not _is_simple(one)], _rows_of)
        others = self._others.match_all(specials, _events_of)
        for special, *found in zip(specials, boxes, others, strict=True):
            if not _is_simple(special):
                found.append(next(lists))
            if special.satisfiable:
                found.append(np.array(self._lacked_by(special), np.int64))
                some = [numbers for numbers in found if len(numbers)]
                yield some[0] if len(some) == 1 else np.unique(np.concatenate(found))
            else:
                yield np.arange(self.size)

    def _lacked_by(self, special: Predicate) -> list[int]:
        """What is kept under values that a predicate lacks; that of one of its filters is enough."""
        if not self._lacking:
            return []
        found: list[int] = []
        for name, states in _coordinates(special.filters[0]):
            for point in excluded_points(states) or ():
                found += self._lacking.get((name, point), ())
        return found


class _Table:
    """Filters under numbers. They are compiled when rows first come, with what these are like."""

    def __init__(self, filters: list[tuple[int, Filter]]) -> None:
        self._names: dict[str, int] = {}
        builder = ColumnsBuilder(self._names)
        for number, f in filters:
            builder.add(number, f)
        self._columns = builder.build()
        self._numbers: Numbers = np.unique(self._columns.ids).astype(np.int64)
        self._computed = Computed().extended(self._names)
        self._part: Part | None = None

    def match_all(
        self, specials: Sequence[Predicate], rows_of: Callable[[Predicate], list[Row]]
    ) -> Iterator[Numbers]:
        """For each predicate the filters that match each of its rows; all filters where it has no rows."""
        if not len(self._numbers):
            yield from (self._numbers for _ in specials)
            return
        asked = [rows_of(special) for special in specials]
        offsets, numbers = self._match([row for rows in asked for row in rows])
        at = 0
        for rows in asked:
            if not rows:
                yield self._numbers
                continue
            first = at
            at += len(rows)
            common = numbers[offsets[first] : offsets[first + 1]].astype(np.int64)
            for other in range(first + 1, at):
                if not len(common):
                    break
                common = _both(common, numbers[offsets[other] : offsets[other + 1]])
            yield common

    def _match(self, rows: list[Row]) -> "Found":
        builder = BatchBuilder(self._names)
        for row in rows:
            builder.add(row)
        batch = builder.build()
        if self._computed:
            batch = self._computed.completed(batch, self._names)
        if self._part is None:
            # Not before: it brings the compiler with it.
            from penstock.matching.compile import compile_table
            from penstock.matching.parts import Part

            self._part = Part(compile_table(self._columns, batch if rows else None)[0])
        return self._part.match(batch, self._names, int(self._numbers[-1]) + 1)


def _both(a: Numbers, b: NDArray[np.signedinteger]) -> Numbers:
    """What is in both, each once."""
    if len(a) + len(b) > _SMALL:
        return np.intersect1d(a, b)
    return np.array([*{*a.tolist()} & {*b.tolist()}], np.int64)


def _ask(name: str, states: ValueSet, conditions: dict[str, ValueSet]) -> None:
    """Add what a value set asks of the coordinates of whatever it covers."""
    kind, cuts = states.kind, states.cuts
    if kind is Presence.ABSENT:
        conditions[_GONE + name] = _IS_TRUE
    elif kind is Presence.EXISTS:
        conditions[_LOW + name] = EXISTS
    elif isinstance(kind, Family):
        if states.is_point:
            conditions[_POINT + name] = states
            return
        if len(cuts) > 2 or cuts[0] != LEAST[kind] or len(cuts) == 1 or states.required or states.forbidden:
            conditions[_LOW + name] = states
        if len(cuts) > 1 or states.required or states.forbidden:
            conditions[_HIGH + name] = states
        if 2 < len(cuts) <= _LONG:
            conditions[_MIDDLE + name] = states


def inner_of(name: str, states: ValueSet) -> dict[str, ValueSet] | None:
    """What a condition asks of the elements of a list, by coordinate; None if it asks for several kinds."""
    if states.kind is not Family.LIST or len(states.required) != 1 or states.forbidden:
        return None
    filters = lists.filters_of(states.required[0])
    if len(filters) != 1 or filters[0].clauses:
        return None
    found = {f"{name}{_ELEMENT}{inner}": asked for inner, asked in filters[0].conditions.items()}
    is_long = any(len(coordinate) >= NAME_LENGTH_MAX for coordinate in found)
    is_nested = any(asked.kind is Family.LIST for asked in found.values())
    return None if is_long or is_nested else found


def _coordinates(f: Filter) -> Iterator[tuple[str, ValueSet]]:
    """What a filter asks of attributes, and of those of elements."""
    for name, states in f.conditions.items():
        yield name, states
        yield from (inner_of(name, states) or {}).items()


def _inner(f: Filter) -> bool:
    """Whether some condition of a filter is looked up by what it asks of elements."""
    return any(inner_of(name, states) is not None for name, states in f.conditions.items())


def _with_lists(number: int, f: Filter) -> tuple[int, Filter]:
    """A filter over coordinates, which asks for lists as they are."""
    conditions: dict[str, ValueSet] = {}
    for name, states in f.conditions.items():
        _ask(name, states, conditions)
    return number, box(conditions)


def _is_simple(special: Predicate) -> bool:
    """Whether elements tell all that it asks of lists."""
    return all(
        states.kind is not Family.LIST or (not f.clauses and _row_of_element(name, states) is not None)
        for f in special.filters
        for one in f.boxes()
        for name, states in one.conditions.items()
    )


def _row_of_element(name: str, states: ValueSet) -> Row | None:
    """The coordinates of what is asked of the elements of a list, if they tell all."""
    inner = inner_of(name, states)
    if inner is None:
        return None
    row: Row = {}
    return row if all(_put_states(row, coordinate, asked) for coordinate, asked in inner.items()) else None


def _lacked(f: Filter) -> list[tuple[str, Point]]:
    """Some values that a filter lacks of attributes of which it asks for nearly all values."""
    return [
        (name, point)
        for name, states in _coordinates(f)
        if is_open(states)
        for point in states.cuts[1 : 2 * _LACKED : 2]
    ]


def _rows_of(special: Predicate) -> list[Row]:
    """What a predicate is looked up by: rows of coordinates; what covers it matches all of them."""
    rows: list[Row] = []
    for at, f in enumerate(special.filters):
        if f.clauses:
            rows += (_row_of_event(f, event) for event in _events_in(f))
        else:
            # What is kept under a value that the first filter lacks is looked up apart.
            rows += _row_of(f, is_first=at == 0)
    return rows


def _row_of(f: Filter, *, is_first: bool) -> list[Row]:
    """The coordinates of a filter without clauses; none where it has too many patterns."""
    row: Row = {}
    for name, states in f.conditions.items():
        if not _put_states(row, name, states):
            return []
        row.update(_row_of_element(name, states) or {})
    for name, states in _coordinates(f):
        if isinstance(states.kind, Family) and (not is_first or excluded_points(states) is None):
            row[_WIDE + name] = True
    return [row]


def _put_states(row: Row, name: str, states: ValueSet) -> bool:
    """Add the coordinates of a value set; false where it has too many patterns."""
    if states.kind is Presence.ABSENT:
        row[_GONE + name] = True
    elif states.kind is Presence.EXISTS:
        row[_LOW + name] = nan  # which satisfies nothing but `exists`
    else:
        found = witnesses(states)
        if found is None:
            return False
        _put(row, name, found)
        if states.is_point:
            row[_POINT + name] = found.low
    return True


def _row_of_event(f: Filter, event: Row) -> Row:
    """The coordinates of one event that a filter matches: whatever covers the filter covers the event."""
    row: Row = {}
    for name in {name for one in f.boxes() for name in one.conditions}:
        value = event.get(name)
        if value is None:
            row[_GONE + name] = True
        else:
            _put(row, name, Witnesses(value, value, value))
            row[_POINT + name] = value
            row[_WIDE + name] = True
    return row


def _put(row: Row, name: str, found: Witnesses) -> None:
    row[_LOW + name], row[_HIGH + name], row[_MIDDLE + name] = found


def _events_of(special: Predicate) -> list[Row]:
    """Events that a predicate matches."""
    return [event for f in special.filters for event in _events_in(f)]


def _events_in(f: Filter) -> list[Row]:
    """Events that a filter matches, at the ends of its value sets; none if it has too many patterns."""
    low: Row = {}
    high: Row = {}
    for name, states in f.conditions.items():
        if states.kind is Presence.ABSENT:
            continue
        found = witnesses(states) if states.kind is not Presence.EXISTS else Witnesses(nan, nan, nan)
        if found is None:
            return []
        low[name], high[name] = found.low, found.high
    return [event for event in (low, high) if f.admits(event)]
