"""Computed attributes: how tables, which know conjunctions only, hold filters that have clauses.

A filter with clauses (`penstock.filters.clauses`) stands in a table as a filter of one condition: that its
computed attribute is true. The attribute is named by the filter's text, so that whatever carries names of
attributes, tables in memory and on disk alike, carries all there is to know. Such a name is longer than that
of any attribute of an event or of a filter.

Before a batch is matched, it is completed: each event gets the computed attributes that are true of it. These
are found by matching, too. In tables of their own, each clause of a filter is an id, and has a filter for
each of its alternatives: that alternative, and a few conditions of the box. So an event that does not match
these costs no more than for any other filter. The box is one more clause. The attribute is true where all
clauses of its filter were found. A batch is left as it is where no filter has clauses.

A filter with a constant that no double stands for (`penstock.matching.exact_cuts`) stands in a table in the
same way. Its conditions are widened there, and the attribute is true of those events that were found and
that the filter itself admits.

As in the store, what comes in small numbers stands in a delta, and large numbers are compiled: a client that
sends one filter with clauses after another must not have all earlier ones compiled again.
"""

import threading
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError, PenstockError
from penstock.filters.asked import attributes_in
from penstock.filters.filter import Filter
from penstock.filters.filter import box as narrow_box
from penstock.filters.languages import sql
from penstock.filters.valuesets import ValueSet
from penstock.matching.batch import TRUE, Batch
from penstock.matching.exact_cuts import has_exact, widened
from penstock.model.limits import NAME_LENGTH_MAX
from penstock.model.values import Family

if TYPE_CHECKING:
    from penstock.matching.columns import ColumnsBuilder
    from penstock.matching.delta import Delta
    from penstock.matching.parts import Part
    from penstock.matching.views import View

_COMPILED: Final = 4_096
"""So many alternatives that come at once are compiled at once; fewer go into a delta."""

_DELTA_MAX: Final = 32_768
"""Alternatives in a delta; then another one is begun."""

_DELTA_LONG_MAX: Final = 512
"""The same where events have strings for which a delta is compiled after each change (`views.LONG`)."""

_NO_NUMBERS: Final = np.zeros(0, np.int32)
_NO_PLACES: Final = np.zeros(0, np.int64)

_GUARDS: Final = 4
"""Conditions of a box that are tested with each alternative."""

_REMEMBERED: Final = 4_096
"""Filters with clauses that need not be parsed when their names come up."""

IS_TRUE: Final = ValueSet(Family.BOOL, (True,))
"""The condition on a computed attribute."""


class _Alternatives(NamedTuple):
    """A filter with clauses, as it is added to a table of clauses."""

    filter: Filter
    builder: "ColumnsBuilder"
    """The alternatives, each with the place of its clause as its id."""
    clauses: int
    is_widened: bool
    """Whether the filter has to decide about what they find."""


class _Remembered:
    """What names stand for. Several threads look here: those that parse, and those that match."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[Filter, str] = {}
        self._known: dict[str, _Alternatives] = {}

    def name_of(self, f: Filter) -> str:
        name = self._names.get(f)
        if name is None:
            name = f.to_sql().ljust(NAME_LENGTH_MAX + 1)
            self._remember(name, _alternatives(f))
        return name

    def get(self, name: str) -> _Alternatives:
        known = self._known.get(name)
        if known is None:
            try:
                known = _alternatives(sql.parse_kept(name))
            except PenstockError as error:
                raise InputError(f"a table has a filter that cannot be read: {error}") from None
            self._remember(name, known)
        return known

    def _remember(self, name: str, known: _Alternatives) -> None:
        with self._lock:
            self._names[known.filter], self._known[name] = name, known
            while len(self._known) > _REMEMBERED:
                oldest = next(iter(self._known))
                self._names.pop(self._known.pop(oldest).filter, None)


_REMEMBERED_FILTERS: Final = _Remembered()


def _alternatives(f: Filter) -> _Alternatives:
    from penstock.matching.columns import ColumnsBuilder

    is_widened = any(map(has_exact, f.boxes()))
    box = widened(f) if is_widened else f.without_clauses()
    clauses = [list(map(widened, clause)) for clause in f.clauses] if is_widened else f.clauses
    guard = box
    # A filter that is read without clauses, though it was not written so, is one clause.
    boxes: list[Iterable[Filter]] = [] if f.clauses else [[box]]
    if len(box.conditions) > _GUARDS:
        # All of a large box with each alternative would be the product of what a client can write.
        narrow = sorted(box.conditions, key=lambda name: len(box.conditions[name].cuts))[:_GUARDS]
        guard = narrow_box({name: box.conditions[name] for name in narrow})
        boxes = [[box]]
    boxes += [[guard.intersection(one) for one in clause] for clause in clauses]
    builder = ColumnsBuilder({})
    for place, clause in enumerate(boxes):
        for alternative in clause:
            builder.add(place, alternative)
    return _Alternatives(f, builder, len(boxes), is_widened)


def name_of(f: Filter) -> str:
    """The name of the computed attribute that stands for a filter with clauses."""
    return _REMEMBERED_FILTERS.name_of(f)


def is_held_apart(f: Filter) -> bool:
    """Whether tables hold a filter as a computed attribute."""
    return bool(f.clauses) or has_exact(f)


def is_computed(name: str) -> bool:
    """Whether this names a computed attribute."""
    return len(name) > NAME_LENGTH_MAX


def unread(number: int) -> str:
    """A name that no attribute of an event has, and no dot is in."""
    return str(number).ljust(NAME_LENGTH_MAX + 1, "_")


def plain_names(names: Iterable[str]) -> list[str]:
    """The names of attributes that events may have."""
    return [name for name in names if not is_computed(name)]


def filter_of(name: str) -> Filter:
    """The filter that a computed attribute stands for."""
    return _REMEMBERED_FILTERS.get(name).filter


def with_attributes(names: Iterable[str]) -> dict[str, None]:
    """The names, and those of all attributes that computed ones among them depend on."""
    found = dict.fromkeys(names)
    for name in list(found):
        if is_computed(name):
            found.update(dict.fromkeys(attributes_in(filter_of(name))))
    return found


def raised(f: Filter) -> Filter:
    """The filter that one of a table stands for."""
    for name in f.conditions:
        if is_computed(name):
            return filter_of(name)
    return f


class _Group(NamedTuple):
    """Some computed attributes, and the filters by which they are found."""

    part: "Part | View"
    attributes: NDArray[np.int32]
    """Their numbers."""
    clauses: NDArray[np.int64]
    """How many clauses the filter of each attribute has."""
    attribute_of: NDArray[np.int64]
    """Of each id in the part, which is a clause: the place of the attribute that it belongs to."""
    deciding: dict[int, Filter]
    """By the place of an attribute whose filter was widened: that filter."""


class Computed:
    """The computed attributes of a matcher, by the names that its filters have. Never changed."""

    def __init__(self, seen: int = 0, groups: Sequence[_Group] = (), delta: "Delta | None" = None) -> None:
        self.seen = seen
        """How many names have been looked at."""
        self._groups = groups
        self._delta = delta
        """What the last group is a view of, if it can take more."""
        self._numbers = np.concatenate([group.attributes for group in groups]) if groups else _NO_NUMBERS

    def __bool__(self) -> bool:
        return bool(self._groups)

    def extended(self, names: dict[str, int]) -> "Computed":
        """With the attributes that have come since, at the end of the names."""
        if len(names) == self.seen:
            return self
        latest = islice(reversed(names), len(names) - self.seen)
        new = [name for name in latest if is_computed(name)][::-1]
        if not new:
            return Computed(len(names), self._groups, self._delta)
        known = [_REMEMBERED_FILTERS.get(name) for name in new]
        numbers = np.array([names[name] for name in new], np.int32)
        if sum(len(each.builder) for each in known) >= _COMPILED:
            # What takes more stays the last one.
            at = len(self._groups) - (self._delta is not None)
            made = _group(known, numbers, names)
            return Computed(len(names), (*self._groups[:at], made, *self._groups[at:]), self._delta)
        return self._with_delta(known, numbers, names)

    def _with_delta(
        self, known: list[_Alternatives], numbers: NDArray[np.int32], names: dict[str, int]
    ) -> "Computed":
        from penstock.matching.delta import Delta

        delta, groups = self._delta, self._groups
        if delta is None or delta.size > (_DELTA_LONG_MAX if delta.long_strings else _DELTA_MAX):
            delta = Delta()
            # An event may match several alternatives of a clause.
            delta.distinct = False
            made = _group(known, numbers, names, delta)
        else:
            made = _group(known, numbers, names, delta, groups[-1])
            groups = groups[:-1]
        return Computed(len(names), (*groups, made), delta)

    def completed(self, batch: Batch, names: dict[str, int]) -> Batch:
        """The batch with the computed attributes that are true of each event."""
        events: list[NDArray[np.int64]] = []
        values: list[NDArray[np.int64]] = []
        before = 0
        for group in self._groups:
            event, which = _found(group, batch, names)
            events.append(event)
            values.append(which + before)
            before += len(group.attributes)
        event, value = np.concatenate(events), np.concatenate(values)
        if not len(event) and not np.isin(batch.value_attribute, self._numbers).any():
            return batch
        return _with_values(batch, event, value, self._numbers)


def _group(
    known: list[_Alternatives],
    numbers: NDArray[np.int32],
    names: dict[str, int],
    delta: "Delta | None" = None,
    before: _Group | None = None,
) -> _Group:
    """Compile filters, or put them into a delta, behind those that a group has there."""
    from penstock.matching.columns import ColumnsBuilder
    from penstock.matching.compile import compile_table
    from penstock.matching.parts import Part

    clauses = np.array([each.clauses for each in known], np.int64)
    first = 0 if before is None else len(before.attributes)
    attribute_of = np.repeat(np.arange(first, first + len(known)), clauses)
    clause = 0 if before is None else len(before.attribute_of)
    deciding = {first + at: each.filter for at, each in enumerate(known) if each.is_widened}
    builder = ColumnsBuilder(names)
    for each in known:
        builder.extend(each.builder, [clause + place for place in each.builder.ids])
        clause += each.clauses
    columns = builder.build()
    if delta is None:
        return _Group(Part(compile_table(columns)[0]), numbers, clauses, attribute_of, deciding)
    delta.insert(columns)
    if before is not None:
        numbers = np.concatenate((before.attributes, numbers))
        clauses = np.concatenate((before.clauses, clauses))
        attribute_of = np.concatenate((before.attribute_of, attribute_of))
        deciding = {**before.deciding, **deciding}
    return _Group(delta.view(), numbers, clauses, attribute_of, deciding)


def _found(group: _Group, batch: Batch, names: dict[str, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of an event and an attribute of the group that is true of it."""
    found = group.part.match(batch, names, len(group.attribute_of))
    if not len(found.numbers):
        return _NO_PLACES, _NO_PLACES
    event = np.repeat(np.arange(len(batch.start)), np.diff(found.offsets))
    width = len(group.attributes)
    pairs, counts = np.unique(event * width + group.attribute_of[found.numbers], return_counts=True)
    pairs = pairs[counts == group.clauses[pairs % width]]
    if group.deciding:
        pairs = pairs[_decided(group, batch, names, (pairs // width).tolist(), (pairs % width).tolist())]
    return pairs // width, pairs % width


def _decided(
    group: _Group, batch: Batch, names: dict[str, int], events: list[int], attributes: list[int]
) -> NDArray[np.bool_]:
    """Which of the pairs stay: what a widened filter has found, the filter itself has to admit."""
    from penstock.matching.plain import value_of

    name_of_number = [*names, ""]
    kept = np.ones(len(events), np.bool_)
    known, values = -1, {}
    for at, (event, attribute) in enumerate(zip(events, attributes, strict=True)):
        f = group.deciding.get(attribute)
        if f is None:
            continue
        if event != known:
            first = batch.start[event]
            entries = batch.entries[first : first + batch.count[event]].tolist()
            values = {name_of_number[batch.value_attribute[v]]: value_of(batch, v) for v in entries}
            known = event
        kept[at] = f.admits(values)
    return kept


def _with_values(
    batch: Batch, event: NDArray[np.int64], value: NDArray[np.int64], numbers: NDArray[np.int32]
) -> Batch:
    """The batch with values, all of them true, of the attributes with these numbers, at some events."""
    first = len(batch.value_state)
    # No event has an attribute of such a name; JSON and Arrow are not asked whether they have one.
    real = ~np.isin(batch.value_attribute[batch.entries], numbers)
    known = np.maximum(batch.count, 0).astype(np.int64)
    owner = np.repeat(np.arange(len(known)), known)
    places = np.repeat(batch.start - (np.cumsum(known) - known), known) + np.arange(len(owner))
    kept = real[places]
    owner = np.concatenate((owner[kept], event))
    entries = np.concatenate((batch.entries[places[kept]], (first + value).astype(np.int32)))
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=len(known))
    none = np.zeros(len(numbers), np.int64)
    return batch._replace(
        start=np.cumsum(count) - count,
        count=np.where(batch.count < 0, batch.count, count).astype(np.int32),
        entries=entries[order],
        value_attribute=np.concatenate((batch.value_attribute, numbers)),
        value_state=np.concatenate((batch.value_state, np.full(len(numbers), TRUE, np.uint8))),
        value_bits=np.concatenate((batch.value_bits, none)),
        value_length=np.concatenate((batch.value_length, none.astype(np.int32))),
    )
