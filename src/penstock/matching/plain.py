"""Matching by the interpreter, with no kernel: what a matcher does until kernels are there.

It does what the store and its snapshots do, for small numbers of filters: the same ids for the same events.
A filter is found by one of its conditions, if possible by one of few values: filters with `origin = 'JFK'`
are looked up under that value. Otherwise it is found by an attribute that has to be present. A filter that
needs neither is tried on every event.

Filters have places, which only grow, and are marked when they are removed. A snapshot knows how many there
were, and how many had been removed; so readers need no lock and see one moment.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError, UnknownSubscriptionError
from penstock.filters import lists
from penstock.filters.filter import Filter
from penstock.filters.order import successor
from penstock.filters.reasons import shown
from penstock.filters.valuesets import ValueSet
from penstock.matching.batch import DECIMAL, DOUBLE, INTEGER, LIST, NAN, STRING, TIME, TRUE, Batch
from penstock.matching.columns import ColumnsBuilder, offsets_of
from penstock.matching.decimals import decimal_at
from penstock.matching.elements import lists_of
from penstock.matching.forking import look_after
from penstock.matching.ids import IdTable, encoded
from penstock.matching.reading import Conditions
from penstock.matching.sampling import Sample
from penstock.matching.times import AskedOfFilters, ReadAsTimes, TimeTexts
from penstock.model.decimals import ExactDecimal
from penstock.model.events import Event, Unsupported
from penstock.model.names import Id, id_order
from penstock.model.values import Family, List, Time, Value

if TYPE_CHECKING:
    from penstock.matching.store import Snapshot, Store

_POINTS_MAX: Final = 16
"""A filter is kept under each value of a condition that has no more; beyond, under the attribute alone."""

_DEAD_MIN: Final = 64
"""When so many filters, and most of all, have been removed, those that are left are arranged anew."""

_NONE: Final[list[int]] = []

BUDGET: Final = 10_000_000
"""Work that the interpreter does in batches while kernels are compiled: some seconds. Then it waits for them,
and leaves the cores to those who compile."""

_EVENT_WORK: Final = 10
"""An event to be read, and what it matched to be kept."""


class HandedOverError(Exception):
    """The filters are in a compiled store now: ask there."""


class Work:
    """Counts what is done by the interpreter, to end it when waiting for kernels would cost less.

    A unit is a filter tried on an event or on an element of a list, or an attribute looked at: about a
    microsecond.
    """

    def __init__(self, budget: int | None = None) -> None:
        self._left = budget

    def take(self, units: int) -> bool:
        """Count some; false when there is more than the budget has."""
        if self._left is None:
            return True
        self._left -= units
        return self._left >= 0


class _Arranged:
    """Filters, and where each is looked for. Changed only at its end, or marked; see the module."""

    def __init__(self) -> None:
        self.filters: list[Filter] = []
        self.owners: list[int] = []
        """For each filter, the number of its id."""
        self.died: dict[int, int] = {}
        """For each filter that was removed, how many had been before."""
        self.by_value: dict[tuple[str, Family], dict[Value, list[int]]] = {}
        self.by_name: dict[str, list[int]] = {}
        self.others: list[int] = []
        self.of_lists: dict[int, list[tuple[str, int]]] = {}
        """For each filter that asks for elements, of which lists, and how many filters it tries on each."""

    def add(self, f: Filter, owner: int) -> int:
        """Add a filter; returns its place."""
        place = len(self.filters)
        self.owners.append(owner)
        self.filters.append(f)
        if not f.satisfiable:
            return place
        asked = [(name, _tried_on_elements(states)) for name, states in _lists_of(f)]
        if asked:
            self.of_lists[place] = asked
        best: tuple[str, list[Value] | None] | None = None
        for name, states in f.conditions.items():
            if states.kind == 0:  # absent
                continue
            points = _points(states)
            if best is None or (points is not None and (best[1] is None or len(points) < len(best[1]))):
                best = name, points
        if best is None:
            self.others.append(place)
        elif best[1] is None:
            self.by_name.setdefault(best[0], []).append(place)
        else:
            by_value = self.by_value.setdefault((best[0], Family(f.conditions[best[0]].kind)), {})
            for point in best[1]:
                by_value.setdefault(point, []).append(place)
        return place

    def candidates(self, attributes: Mapping[str, Value]) -> list[int]:
        """The places of all filters that may match, each once."""
        found = list(self.others)
        by_name, by_value = self.by_name, self.by_value
        for name, value in attributes.items():
            found += by_name.get(name, _NONE)
            key = name, _FAMILIES[type(value)]
            if key in by_value:
                point = value.nanoseconds if type(value) is Time else value
                found += by_value[key].get(point, _NONE)
        return found


_FAMILIES: Final[dict[type, Family]] = {
    bool: Family.BOOL,
    int: Family.NUMBER,
    float: Family.NUMBER,
    ExactDecimal: Family.NUMBER,
    str: Family.STRING,
    Time: Family.TIME,
    tuple: Family.LIST,
}


def _lists_of(f: Filter) -> Iterator[tuple[str, ValueSet]]:
    for one in f.boxes():
        yield from ((name, states) for name, states in one.conditions.items() if states.kind is Family.LIST)


def _tried_on_elements(states: ValueSet) -> int:
    """How many filters a condition on a list tries on each element, and on the elements of its lists."""
    inner = [f for asked in (*states.required, *states.forbidden) for f in lists.filters_of(asked)]
    return sum(1 + sum(_tried_on_elements(one) for _name, one in _lists_of(f)) for f in inner)


def elements_in(elements: List) -> int:
    """How many elements a list has, and those of the lists in it."""
    found = len(elements)
    for element in elements:
        values = element.attributes.values() if isinstance(element, Event) else (element,)
        found += sum(elements_in(value) for value in values if type(value) is tuple)
    return found


def _points(states: ValueSet) -> list[Value] | None:
    """All values of a condition, if they are few; as the cuts have them."""
    cuts, kind = states.cuts, states.kind
    if not isinstance(kind, Family) or kind is Family.LIST or len(cuts) > 2 * _POINTS_MAX:
        return None
    if kind is Family.BOOL:
        return [value for value in (False, True) if states.admits(value)]
    ends = [*cuts[1::2], *([None] if len(cuts) % 2 else [])]
    points: list[Value] = []
    for low, high in zip(cuts[::2], ends, strict=True):
        if successor(kind, low) != high:
            return None
        points.append(low)
    return points


class PlainSnapshot(NamedTuple):
    """What a match works on."""

    arranged: _Arranged
    size: int
    """How many filters there were."""
    removed: int
    """How many had been removed."""
    ids: IdTable
    names: dict[str, int]
    integers: bool
    sample: Sample
    store: "PlainStore"
    times: ReadAsTimes
    """The attributes whose texts are read as times."""

    def completed(self, batch: Batch, *, counted: bool = False) -> Batch:
        """The batch as filters are matched with it. The elements of lists are not counted."""
        return self.times.read(batch)

    @property
    def work(self) -> Work:
        """What batches may still take of the interpreter."""
        return self.store.work

    def counting(self, unsupported: Unsupported) -> Unsupported:
        """The same, with values that are left out counted."""
        return self.sample.observed.skipping if unsupported == "skip" else unsupported

    @property
    def parts(self) -> "tuple[PlainPart]":
        """What filters are found in: one part."""
        return (PlainPart(self),)

    def living(self) -> Iterator[tuple[int, Filter]]:
        """The filters that have not been removed, each with the number of its id."""
        arranged, removed = self.arranged, self.removed
        for place in range(self.size):
            if arranged.died.get(place, removed) >= removed:
                yield arranged.owners[place], arranged.filters[place]

    def compiled(self) -> "Store":
        """The filters in a compiled store, where attributes and ids have the same numbers. Takes kernels."""
        from penstock.matching.store import Store

        made = Store()
        made.texts = self.store.texts
        made.names.update(self.names)
        made.sample = self.sample
        made.expect_integers(self.integers)
        keys = [self.ids.get(number) for number in range(self.ids.count)]
        if keys:
            made.ids.intern(keys)
        given = ColumnsBuilder(made.names)
        for owner, f in self.living():
            given.add(owner, f)
        if len(given):
            made.add(given, keys)
        return made

    def match(self, attributes: Mapping[str, Value]) -> list[Id]:
        """The ids, sorted, that an event matches."""
        numbers, _ = self._match(attributes)
        return sorted(map(self.ids.get, numbers), key=id_order)

    def find(
        self,
        batch: Batch,
        found: list[list[int]],
        work: Work,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Add to `found` the numbers of the ids that each further event matches.

        False where it stops before the last, because there is too much work, or kernels have come.
        """
        values = values_of(batch, list(self.names))
        start, count, entries = batch.start.tolist(), batch.count.tolist(), batch.entries.tolist()
        for event in range(len(found), len(start)):
            if is_interrupted():
                return False
            first = start[event]
            attributes = dict(values[at] for at in entries[first : first + count[event]])
            numbers, tried = self._match(attributes)
            found.append(numbers)
            if not work.take(_EVENT_WORK + len(attributes) + tried) and event + 1 < len(start):
                return False
        return True

    def _match(self, attributes: Mapping[str, Value]) -> tuple[list[int], int]:
        """The numbers of the ids that match, and how many filters were tried, on elements of lists too."""
        arranged, size, removed = self.arranged, self.size, self.removed
        filters, owners, died = arranged.filters, arranged.owners, arranged.died
        candidates = arranged.candidates(attributes)
        found: dict[int, None] = {}
        work, sizes = len(candidates), self._sizes(attributes)
        for place in candidates:
            if place >= size or owners[place] in found or died.get(place, removed) < removed:
                continue
            if sizes:
                work += sum(sizes.get(name, 0) * tried for name, tried in arranged.of_lists.get(place, ()))
            if filters[place].admits(attributes):
                found[owners[place]] = None
        return list(found), work

    def _sizes(self, attributes: Mapping[str, Value]) -> dict[str, int]:
        """How many elements each list of an event has, if any filter asks for elements."""
        if not self.arranged.of_lists:
            return {}
        return {name: elements_in(value) for name, value in attributes.items() if type(value) is tuple}


def values_of(batch: Batch, names: list[str]) -> list[tuple[str, Value]]:
    """The values of a batch with the names of their attributes."""
    # A batch may have one attribute that no filter names, under the number after the last.
    names = [*names, ""]
    attributes = batch.value_attribute.tolist()
    lists = lists_of(batch)
    return [
        (names[attribute], lists[at] if at in lists else value_of(batch, at))
        for at, attribute in enumerate(attributes)
    ]


def value_of(batch: Batch, at: int) -> Value:
    """A value of a batch that is no list, as the model has it."""
    state, bits = batch.value_state[at], batch.value_bits[at]
    if state == STRING:
        text: str = batch.arena[bits : bits + batch.value_length[at]].tobytes().decode()
        return text
    if state == INTEGER:
        return int(bits)
    if state == DOUBLE:
        return float(bits.view(np.float64))
    if state == TIME:
        return Time(int(bits))
    if state == DECIMAL:
        return decimal_at(batch.arena, int(bits))
    return float("nan") if state == NAN else bool(state == TRUE)


def shown_at(batch: Batch, at: int) -> str:
    """A value of a batch as messages show it; empty for a list, which batches as kernels take them lack."""
    return "" if batch.value_state[at] == LIST else shown(value_of(batch, at))


class PlainPart:
    """The filters as those who look into a matcher's parts see them."""

    def __init__(self, snapshot: PlainSnapshot) -> None:
        self._builder = ColumnsBuilder(snapshot.names)
        for owner, f in snapshot.living():
            self._builder.add(owner, f)
        self.ids = np.array(self._builder.ids, np.int32)

    def conditions(self, names: dict[str, int]) -> Iterator[Conditions]:
        """The conditions of the filters."""
        offsets, attribute, kind = self._builder.conditions()
        yield Conditions(np.arange(len(self.ids)), offsets, attribute, kind)


class PlainStore:
    """Filters under ids, until they are handed over. Methods may be called by several threads at once."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.names: dict[str, int] = {}
        """The attributes that filters name, numbered as a compiled store does."""
        self._arranged = _Arranged()
        self._places: dict[int, list[int]] = {}
        """By the number of an id, the places of its filters."""
        self._numbers: dict[Id, int] = {}
        self._ids: list[Id] = []
        self._live_texts = 0
        self._integers = False
        self._is_over = False
        self._current: PlainSnapshot | None = None
        self.sample = Sample()
        self._asked = AskedOfFilters()
        self._texts = TimeTexts()
        self._table: tuple[int, IdTable] = 0, _table_of([])
        self._heir: tuple[PlainSnapshot, Snapshot] | None = None
        """What readers saw last here, and the same in a compiled store."""
        self.work = Work(BUDGET)
        """What batches may still take."""
        look_after(self)

    def forget_mergers(self) -> None:
        """There are none."""

    @property
    def texts(self) -> TimeTexts:
        """Of which attributes texts are read as times."""
        return self._texts

    @texts.setter
    def texts(self, texts: TimeTexts) -> None:
        with self._changing():
            self._texts = texts

    # Changes

    def add(self, given: ColumnsBuilder, filters: Sequence[Filter], keys: Sequence[Id]) -> None:
        """Add filters, whose ids are places in `keys`; `given` has the same as columns."""
        from penstock.matching.store import check_attributes

        with self._changing():
            given.names = self.names
            new = given.new_names()
            check_attributes(len(self.names) + len(new))
            for name in new:
                self.sample.observed.begin(len(self.names))
                self.names[name] = len(self.names)
            numbers = [self._number(key) for key in keys]
            for at, f in zip(given.ids, filters, strict=True):
                self._add(f, numbers[at])

    def _number(self, key: Id) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._ids)
            self._ids.append(key)
        return number

    def _add(self, f: Filter, number: int) -> None:
        places = self._places.get(number)
        if places is None:
            places = self._places[number] = []
            self._live_texts += isinstance(self._ids[number], str)
        places.append(self._arranged.add(f, number))
        self._asked.count(f, 1)

    def remove(self, keys: Sequence[Id]) -> None:
        """Remove all that each of the ids has: all of them, or, when one is not known, none."""
        with self._changing():
            seen: set[Id] = set()
            for key in keys:
                if self._numbers.get(key, -1) not in self._places:
                    raise UnknownSubscriptionError(f"nothing is subscribed under {key!r:.80}")
            for key in keys:
                if key in seen:
                    raise PenstockError(f"{key!r:.80} is to be removed twice: give each id once")
                seen.add(key)
            for key in keys:
                for place in self._places[self._numbers[key]]:
                    self._kill(place)
                self._forget(self._numbers[key])

    def remove_filters(self, key: Id, filters: Sequence[Filter]) -> None:
        """Remove one of each of the filters of an id, which all must be there."""
        with self._changing():
            number = self._numbers.get(key, -1)
            left = list(self._places.get(number, ()))
            chosen = []
            for f in filters:
                place = next((place for place in left if self._arranged.filters[place] == f), None)
                if place is None:
                    raise UnknownSubscriptionError(f"that filter is not subscribed under {key!r:.80}")
                left.remove(place)
                chosen.append(place)
            for place in chosen:
                self._kill(place)
            self._places[number] = left
            if not left:
                self._forget(number)

    def _kill(self, place: int) -> None:
        died = self._arranged.died
        died[place] = len(died)
        self._asked.count(self._arranged.filters[place], -1)

    def _forget(self, number: int) -> None:
        del self._places[number]
        self._live_texts -= isinstance(self._ids[number], str)

    def _changing(self) -> "_Changing":
        return _Changing(self)

    def _check(self) -> None:
        if self._is_over:
            raise HandedOverError

    def _changed(self) -> None:
        """Something has: readers will see it."""
        self._tidy()
        self._current = None
        if self._places:
            # Where no id has filters, what the last ones were still counts.
            self._integers = not self._live_texts

    def _tidy(self) -> None:
        """Arrange those that are left anew, when most have been removed. Readers keep what they have."""
        old = self._arranged
        if len(old.died) < _DEAD_MIN or 2 * len(old.died) < len(old.filters):
            return
        self._arranged = _Arranged()
        for number, places in self._places.items():
            self._places[number] = [self._arranged.add(old.filters[place], number) for place in places]

    # Looking

    def snapshot(self) -> PlainSnapshot:
        """All filters as they are now."""
        with self.lock:
            self._check()
            if self._current is None:
                if self._table[0] != len(self._ids):
                    self._table = len(self._ids), _table_of(self._ids)
                arranged = self._arranged
                self._current = PlainSnapshot(
                    arranged,
                    len(arranged.filters),
                    len(arranged.died),
                    self._table[1],
                    dict(self.names),
                    self._integers,
                    self.sample,
                    self,
                    ReadAsTimes.of(self._texts, self._asked.times, self._asked.strings, self.names),
                )
            return self._current

    def filters(self, key: Id) -> list[Filter]:
        """The filters that an id has."""
        with self.lock:
            self._check()
            places = self._places.get(self._numbers.get(key, -1), ())
            return [self._arranged.filters[place] for place in places]

    def keys(self) -> list[Id]:
        """All ids that have filters."""
        with self.lock:
            self._check()
            return [self._ids[number] for number in self._places]

    def has(self, key: Id) -> bool:
        """Whether an id has filters."""
        with self.lock:
            self._check()
            return self._numbers.get(key, -1) in self._places

    @property
    def live_ids(self) -> int:
        """How many ids have filters."""
        return len(self._places)

    # The end

    def hand_over(self) -> "Store":
        """All filters in a compiled store, where attributes and ids have the same numbers. Takes kernels."""
        with self.lock:
            snapshot = self.snapshot()
            made = snapshot.compiled()
            self._heir = snapshot, made.snapshot()
            self._is_over = True
            return made

    def heir_of(self, snapshot: PlainSnapshot) -> "Snapshot":
        """What a compiled store has of the same filters."""
        if self._heir is not None and self._heir[0] is snapshot:
            return self._heir[1]
        return snapshot.compiled().snapshot()


class _Changing:
    """Holds the lock while something changes; then what readers see is made anew."""

    def __init__(self, store: PlainStore) -> None:
        self._store = store

    def __enter__(self) -> None:
        self._store.lock.acquire()
        try:
            self._store._check()
        except HandedOverError:
            self._store.lock.release()
            raise

    def __exit__(self, *_raised: object) -> None:
        self._store._changed()
        self._store.lock.release()


def _table_of(ids: Sequence[Id]) -> IdTable:
    keys = [encoded(key) for key in ids]
    text = np.frombuffer(b"".join(keys), np.uint8).copy()
    return IdTable.from_arrays(text, offsets_of(np.fromiter(map(len, keys), np.int64, len(keys))))


def as_found(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Offsets and numbers."""
    offsets = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
    return offsets, np.array([number for row in rows for number in row], np.int32)


def without_first(batch: Batch, events: int) -> Batch:
    """The batch without so many of its first events."""
    return batch._replace(start=batch.start[events:], count=batch.count[events:])
