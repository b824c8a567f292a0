"""Computed attributes: how tables, which know conjunctions of plain values only, hold filters that say more.

A filter with clauses (`penstock.filters.clauses`) stands in a table as a filter of one condition: that its
computed attribute is true. The attribute is named by the filter's text, so that whatever carries names of
attributes, tables in memory and on disk alike, carries all there is to know. Such a name is longer than that
of any attribute of an event or of a filter.

What is asked of a list, `any(tags where this = 'red')`, is a computed attribute as well, which a filter asks
to be true; or absent, where no element may be so. Its name is the text of a filter with this one condition.

Before a batch is matched, it is completed: each event gets the computed attributes that are true of it. These
are found by matching, too: those of lists by matching their elements (`elements`). For clauses, in tables of
their own, each clause of a filter is an id, and has a filter for
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
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InputError, PenstockError
from penstock.filters import lists
from penstock.filters.asked import attributes_in
from penstock.filters.filter import Filter, box
from penstock.filters.languages import sql
from penstock.filters.valuesets import ABSENT, ValueSet, of_lists
from penstock.matching.batch import TRUE, Batch, ListColumn, with_lists, without_lists
from penstock.matching.exact_cuts import has_exact, widened
from penstock.model.limits import NAME_LENGTH_MAX
from penstock.model.values import Family

if TYPE_CHECKING:
    from penstock.matching.columns import ColumnsBuilder
    from penstock.matching.delta import Delta
    from penstock.matching.elements import Elements
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


class Alternatives(NamedTuple):
    """A filter with clauses as it is added to a table of clauses, or what it asks of elements."""

    filter: Filter
    builder: "ColumnsBuilder"
    """The alternatives, each with the place of its clause as its id."""
    clauses: int
    is_widened: bool = False
    """Whether the filter has to decide about what they find."""
    list: str | None = None
    """The attribute whose elements are to match an alternative."""


class _Remembered:
    """What names stand for. Several threads look here: those that parse, and those that match."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[Filter, str] = {}
        self._known: dict[str, Alternatives] = {}

    def name_of(self, f: Filter) -> str:
        name = self._names.get(f)
        if name is None:
            name = f.to_sql().ljust(NAME_LENGTH_MAX + 1)
            self._remember(name, _alternatives(f))
        return name

    def name_of_list(self, attribute: str, asked: lists.Condition) -> str:
        name = f"any({sql.write_name(attribute)} where {asked})".ljust(NAME_LENGTH_MAX + 1)
        if name not in self._known:
            states = ValueSet(Family.LIST, (0,), () if asked == lists.ANY else (asked,))
            self._remember(name, _alternatives(box({attribute: states})))
        return name

    def get(self, name: str) -> Alternatives:
        known = self._known.get(name)
        if known is None:
            try:
                known = _alternatives(sql.parse_kept(name))
            except PenstockError as error:
                raise InputError(f"a table has a filter that cannot be read: {error}") from None
            self._remember(name, known)
        return known

    def _remember(self, name: str, known: Alternatives) -> None:
        with self._lock:
            self._names[known.filter], self._known[name] = name, known
            while len(self._known) > _REMEMBERED:
                oldest = next(iter(self._known))
                self._names.pop(self._known.pop(oldest).filter, None)


_REMEMBERED_FILTERS: Final = _Remembered()


def _alternatives(f: Filter) -> Alternatives:
    from penstock.matching.columns import ColumnsBuilder

    builder = ColumnsBuilder({})
    if not f.clauses and len(f.conditions) == 1:
        ((name, states),) = f.conditions.items()
        if states.kind is Family.LIST and len(states.required) <= 1 and not states.forbidden:
            for asked in lists.filters_of(states.required[0] if states.required else lists.ANY):
                builder.add(0, asked)
            return Alternatives(f, builder, 1, list=name)
    is_widened = any(map(has_exact, f.boxes()))
    plain = widened(f) if is_widened else f.without_clauses()
    clauses = [list(map(widened, clause)) for clause in f.clauses] if is_widened else f.clauses
    guard = plain
    # A filter that is read without clauses, though it was not written so, is one clause.
    boxes: list[Iterable[Filter]] = [] if f.clauses else [[plain]]
    if len(plain.conditions) > _GUARDS:
        # All of a large box with each alternative would be the product of what a client can write.
        narrow = sorted(plain.conditions, key=lambda name: len(plain.conditions[name].cuts))[:_GUARDS]
        guard = box({name: plain.conditions[name] for name in narrow})
        boxes = [[plain]]
    boxes += [[guard.intersection(one) for one in clause] for clause in clauses]
    for place, clause in enumerate(boxes):
        for alternative in clause:
            builder.add(place, alternative)
    return Alternatives(f, builder, len(boxes), is_widened)


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


def names_behind(name: str) -> list[str]:
    """The attributes that a computed one depends on, computed ones too."""
    known = _REMEMBERED_FILTERS.get(name)
    found = attributes_in(known.filter)
    return found if known.list is not None else [*found, *known.builder.new_names()]


def with_attributes(names: Iterable[str]) -> dict[str, None]:
    """The names, and those of all attributes that computed ones among them depend on."""
    found = dict.fromkeys(names)
    for name in list(found):
        if is_computed(name):
            found.update(dict.fromkeys(names_behind(name)))
    return found


def lowered(conditions: Mapping[str, ValueSet]) -> dict[str, ValueSet]:
    """Conditions with computed attributes in place of what is asked of lists."""
    made: dict[str, ValueSet] = {}
    for name, states in conditions.items():
        if states.kind is not Family.LIST:
            made[name] = states
            continue
        for asked in states.required or (lists.ANY,):
            made[_REMEMBERED_FILTERS.name_of_list(name, asked)] = IS_TRUE
        for asked in states.forbidden:
            made[_REMEMBERED_FILTERS.name_of_list(name, asked)] = ABSENT
    return made


def raised(f: Filter) -> Filter:
    """The filter that one of a table stands for."""
    computed = [name for name in f.conditions if is_computed(name)]
    if not computed:
        return f
    of_list: dict[str, ValueSet] = {}
    for name in computed:
        known = _REMEMBERED_FILTERS.get(name)
        if known.list is None:
            return known.filter
        states = known.filter.conditions[known.list]
        if f.conditions[name] == ABSENT:
            states = of_lists((), states.required or (lists.ANY,))
        before = of_list.get(known.list)
        of_list[known.list] = states if before is None else before.intersection(states)
    plain = {name: states for name, states in f.conditions.items() if not is_computed(name)}
    return box({**plain, **of_list})


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


class Groups(NamedTuple):
    """Computed attributes of one kind, and what finds them. Never changed."""

    groups: tuple[_Group, ...] = ()
    delta: "Delta | None" = None
    """What the last group is a view of, if it can take more."""

    @property
    def size(self) -> int:
        """How many attributes there are."""
        return sum(len(group.attributes) for group in self.groups)

    def extended(
        self, known: list[Alternatives], numbers: NDArray[np.int32], names: dict[str, int]
    ) -> "Groups":
        """With more attributes, which have these numbers; `names` are those that alternatives have."""
        if sum(len(each.builder) for each in known) >= _COMPILED:
            # What takes more stays the last one.
            at = len(self.groups) - (self.delta is not None)
            made = _group(known, numbers, names)
            return Groups((*self.groups[:at], made, *self.groups[at:]), self.delta)
        return self._with_delta(known, numbers, names)

    def _with_delta(
        self, known: list[Alternatives], numbers: NDArray[np.int32], names: dict[str, int]
    ) -> "Groups":
        from penstock.matching.delta import Delta

        delta, groups = self.delta, self.groups
        if delta is None or delta.size > (_DELTA_LONG_MAX if delta.long_strings else _DELTA_MAX):
            delta = Delta()
            # An event may match several alternatives of a clause.
            delta.distinct = False
            made = _group(known, numbers, names, delta)
        else:
            made = _group(known, numbers, names, delta, groups[-1])
            groups = groups[:-1]
        return Groups((*groups, made), delta)

    def found(
        self, batch: Batch, names: dict[str, int], lists: Sequence[ListColumn] = ()
    ) -> "tuple[NDArray[np.int64], NDArray[np.int32]]":
        """Events, and for each of them the number of an attribute that is true of it.

        `lists`: the lists of the batch, which itself has them no longer.
        """
        events: list[NDArray[np.int64]] = [_NO_PLACES]
        numbers: list[NDArray[np.int32]] = [_NO_NUMBERS]
        for group in self.groups:
            event, which = _found(group, batch, names, lists)
            events.append(event)
            numbers.append(group.attributes[which])
        return np.concatenate(events), np.concatenate(numbers)


_NOTHING: Final = Groups()


class Computed:
    """The computed attributes of a matcher, by the names that its filters have. Never changed."""

    def __init__(
        self, seen: int = 0, clauses: Groups = _NOTHING, lists: "Mapping[str, Elements] | None" = None
    ) -> None:
        self.seen = seen
        """How many names have been looked at."""
        self._clauses = clauses
        self.lists: Mapping[str, Elements] = lists or {}
        """By the attribute that has the list."""
        self._of_clauses = np.zeros(seen + 1, np.bool_)
        """By the number of an attribute: whether it stands for a filter with clauses."""
        for group in clauses.groups:
            self._of_clauses[group.attributes] = True

    def __bool__(self) -> bool:
        return bool(self._clauses.groups or self.lists)

    def extended(self, names: dict[str, int]) -> "Computed":
        """With the attributes that have come since, at the end of the names."""
        if len(names) == self.seen:
            return self
        latest = islice(reversed(names), len(names) - self.seen)
        new = [name for name in latest if is_computed(name)][::-1]
        known = [(_REMEMBERED_FILTERS.get(name), names[name]) for name in new]
        return Computed(len(names), self._with_clauses(known, names), self._with_lists(known))

    def _with_clauses(self, known: "list[tuple[Alternatives, int]]", names: dict[str, int]) -> Groups:
        mine = [(each, number) for each, number in known if each.list is None]
        if not mine:
            return self._clauses
        numbers = np.array([number for _, number in mine], np.int32)
        return self._clauses.extended([each for each, _ in mine], numbers, names)

    def _with_lists(self, known: "list[tuple[Alternatives, int]]") -> "Mapping[str, Elements]":
        by_list: dict[str, list[tuple[Alternatives, int]]] = {}
        for each, number in known:
            if each.list is not None:
                by_list.setdefault(each.list, []).append((each, number))
        if not by_list:
            return self.lists
        from penstock.matching.elements import NONE

        made = dict(self.lists)
        for name, mine in by_list.items():
            numbers = np.array([number for _, number in mine], np.int32)
            made[name] = made.get(name, NONE).extended([each for each, _ in mine], numbers)
        return made

    def completed(self, batch: Batch, names: dict[str, int], *, counted: bool = False) -> Batch:
        """The batch with the computed attributes that are true of each event, as kernels take it; `counted`:
        its elements show what elements are like."""
        given = batch
        if batch.lists:
            batch = self._completed_by_lists(batch, names, counted=counted)
        if not self._clauses.groups:
            return batch
        # What a sample of events has of them was true once.
        old = self._of_clauses[np.minimum(batch.value_attribute, self.seen)]
        event, number = self._clauses.found(batch, names, given.lists)
        return _with_values(batch, event, number, old) if len(event) or old.any() else batch

    def _completed_by_lists(self, batch: Batch, names: dict[str, int], *, counted: bool) -> Batch:
        """The batch with the attributes that are true of its lists. A sample, which has no lists, has
        them."""
        events: list[NDArray[np.int64]] = [_NO_PLACES]
        numbers: list[NDArray[np.int32]] = [_NO_NUMBERS]
        lists = {column.attribute: column for column in batch.lists}
        batch = without_lists(batch)
        event_of = _events_of_values(batch)
        for name, elements in self.lists.items():
            column = lists.get(names[name])
            if column is not None:
                row, number = elements.found(column, counted=counted)
                events.append(event_of[column.places[row]])
                numbers.append(number)
        return _with_values(batch, np.concatenate(events), np.concatenate(numbers))


def _group(
    known: list[Alternatives],
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


def _found(
    group: _Group, batch: Batch, names: dict[str, int], lists: Sequence[ListColumn]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of an event and an attribute of the group that is true of it."""
    found = group.part.match(batch, names, len(group.attribute_of))
    if not len(found.numbers):
        return _NO_PLACES, _NO_PLACES
    event = np.repeat(np.arange(len(batch.start)), np.diff(found.offsets))
    width = len(group.attributes)
    pairs, counts = np.unique(event * width + group.attribute_of[found.numbers], return_counts=True)
    pairs = pairs[counts == group.clauses[pairs % width]]
    if group.deciding:
        whole = with_lists(batch, lists)
        pairs = pairs[_decided(group, whole, names, (pairs // width).tolist(), (pairs % width).tolist())]
    return pairs // width, pairs % width


def _decided(
    group: _Group, batch: Batch, names: dict[str, int], events: list[int], attributes: list[int]
) -> NDArray[np.bool_]:
    """Which of the pairs stay: what a widened filter has found, the filter itself has to admit."""
    from penstock.matching.elements import lists_of
    from penstock.matching.plain import value_of

    lists = lists_of(batch)
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
            values = {
                name_of_number[batch.value_attribute[v]]: lists[v] if v in lists else value_of(batch, v)
                for v in entries
            }
            known = event
        kept[at] = f.admits(values)
    return kept


def _entries_of(batch: Batch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each entry of an event, one event after the other: the event, and where the entry stands."""
    known = np.maximum(batch.count, 0).astype(np.int64)
    owner = np.repeat(np.arange(len(known)), known)
    return owner, np.repeat(batch.start - (np.cumsum(known) - known), known) + np.arange(len(owner))


def _events_of_values(batch: Batch) -> NDArray[np.int64]:
    """For each value an event that has it: that of a list is the only one."""
    owner, places = _entries_of(batch)
    event_of = np.zeros(len(batch.value_attribute), np.int64)
    event_of[batch.entries[places]] = owner
    return event_of


def _with_values(
    batch: Batch, event: NDArray[np.int64], number: NDArray[np.int32], gone: NDArray[np.bool_] | None = None
) -> Batch:
    """The batch where attributes with these numbers are true of these events; without the values `gone`."""
    first = len(batch.value_state)
    numbers, value = np.unique(number, return_inverse=True)
    owner, places = _entries_of(batch)
    if gone is not None:
        kept = ~gone[batch.entries[places]]
        owner, places = owner[kept], places[kept]
    events = len(batch.count)
    owner = np.concatenate((owner, event))
    entries = np.concatenate((batch.entries[places], (first + value).astype(np.int32)))
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=events)
    none = np.zeros(len(numbers), np.int64)
    return batch._replace(
        start=np.cumsum(count) - count,
        count=np.where(batch.count < 0, batch.count, count).astype(np.int32),
        entries=entries[order],
        value_attribute=np.concatenate((batch.value_attribute, numbers.astype(np.int32))),
        value_state=np.concatenate((batch.value_state, np.full(len(numbers), TRUE, np.uint8))),
        value_bits=np.concatenate((batch.value_bits, none)),
        value_length=np.concatenate((batch.value_length, none.astype(np.int32))),
    )
