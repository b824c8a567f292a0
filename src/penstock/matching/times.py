"""Texts that are read as times: of which attributes, and how a batch of them is read.

JSON has no times, and columns of text often hold them. A text that `Time.parse` reads is a time where a
schema says that the attribute is one, or where rules compare the attribute with times and none compares it
with a string. Other texts stay what they are. `docs/FILTERS.md` specifies this.

The elements of lists are read in the same way: what is said here of attributes holds of theirs, too, which
are called by their places (`penstock.model.places`).

What rules ask is counted (`AskedTimes`), as conditions come and go. Nothing is counted until some rule asks
for a time; then all conditions are read once.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.filters.asked import families_at
from penstock.filters.filter import Filter
from penstock.filters.lists import attributes_of
from penstock.matching.batch import STRING, TIME, ArrowLists, Batch, with_lists
from penstock.matching.behind import behind
from penstock.matching.columns import NEVER, PATTERN_ONLY
from penstock.matching.computed import is_computed
from penstock.model.events import list_with_times, with_times
from penstock.model.places import Place, in_order, inside, split
from penstock.model.schema import Schema
from penstock.model.values import TIME_TEXT, Family, List, Value, time_in

if TYPE_CHECKING:
    from penstock.matching.observed import Observed
    from penstock.matching.reading import Conditions

_FEW: Final = 32
"""So many texts are read one by one."""

_SHAPES: Final = 4
"""Ways to write times in a batch that are looked for one after another."""

_LENGTH_MIN: Final = len("2013-01-31")
_LENGTH_MAX: Final = len("2013-01-31T05:00:00.123456789 +00:00")
_SECONDS_MAX: Final = 2**63 // 1_000_000_000
"""Times of at least so many seconds may be out of range: they are read one by one."""


class TimeTexts(NamedTuple):
    """Of which attributes texts are read as times."""

    always: frozenset[Place] = frozenset()
    """Whatever rules ask."""
    never: frozenset[Place] = frozenset()
    """Whatever rules ask, and whatever `always` says."""
    by_rules: bool = True
    """Whether rules decide about others."""

    @classmethod
    def of_schema(cls, schema: Schema) -> "TimeTexts":
        """A schema decides about the attributes that it lists, unless they may be both."""
        only = frozenset({Family.TIME})
        always = (place for place, one in schema.places() if one.families == only)
        never = (place for place, one in schema.places() if Family.TIME not in one.families)
        return cls(frozenset(always), frozenset(never))

    def names(self, asked: Iterable[Place]) -> frozenset[Place]:
        """The attributes, where rules ask for these as times and not as strings."""
        return (self.always.union(asked) if self.by_rules else self.always) - self.never


class Asked(msgspec.Struct, frozen=True):
    """What some filters compare attributes with."""

    times: list[Place] = []
    """Those that are compared with times."""
    strings: list[Place] = []
    """Those that are compared with strings."""

    @classmethod
    def of(cls, asked: Mapping[Place, Collection[Family]]) -> "Asked":
        """What filters that compare attributes with these families ask."""
        times = in_order(name for name, families in asked.items() if Family.TIME in families)
        return cls(times, in_order(name for name, families in asked.items() if Family.STRING in families))

    @property
    def times_only(self) -> set[Place]:
        """The attributes that are compared with times, and not with strings."""
        return set(self.times).difference(self.strings)


class ReadAsTimes(NamedTuple):
    """The attributes whose texts are read as times, by name and by number."""

    names: frozenset[Place] = frozenset()
    numbers: NDArray[np.int32] = np.zeros(0, np.int32)
    kept: NDArray[np.int32] = np.zeros(0, np.int32)
    """Attributes whose texts would be if no rule compared them with strings."""
    lists: Mapping[int, frozenset[Place]] = {}
    """By the number of a list: the places of elements whose texts are read as times."""
    lists_kept: Mapping[int, frozenset[Place]] = {}
    """The same of texts that would be if no rule compared them with strings."""

    @classmethod
    def of(
        cls,
        texts: TimeTexts,
        times: Iterable[Place],
        strings: Iterable[Place],
        numbers: Mapping[str, int],
    ) -> "ReadAsTimes":
        """Where rules compare attributes with `times` and with `strings`."""
        times = set(times)
        both = times.intersection(strings)
        names = texts.names(times - both)
        kept = texts.names(both) - texts.always
        if not (names or kept):
            return NOTHING
        return cls._numbered(names, kept, numbers)

    @classmethod
    def _numbered(
        cls, places: Collection[Place], kept: Collection[Place], numbers: Mapping[str, int]
    ) -> "ReadAsTimes":
        found, lists = _with_numbers(places, numbers)
        others, lists_kept = _with_numbers(kept, numbers)
        return cls(frozenset(places), found, others, lists, lists_kept)

    def note(self, batch: Batch, observed: "Observed") -> None:
        """Count the texts that would be times if no rule compared them with strings."""
        counts = self._kept_in(batch)
        if len(counts):
            observed.keep(counts)
        for column in batch.lists if self.lists_kept else ():
            places = self.lists_kept.get(column.attribute)
            if places is not None:
                observed.keep_inside(column.attribute, _kept_in_lists(column.rows, places))

    def _kept_in(self, batch: Batch) -> NDArray[np.int64]:
        """By the number of an attribute: the texts that would be times."""
        if not len(self.kept):
            return _NONE
        places, _ = _times_among(batch, self.kept)
        if not len(places):
            return _NONE
        are_times = np.zeros(len(batch.value_state), np.bool_)
        are_times[places] = True
        entries = batch.entries[are_times[batch.entries]]
        return np.bincount(batch.value_attribute[entries])

    def read(self, batch: Batch) -> Batch:
        """The batch with these texts as times."""
        if len(self.numbers):
            batch = read_times(batch, self.numbers)
        if not (self.lists and batch.lists):
            return batch
        read = [
            column._replace(rows=_read_lists(column.rows, self.lists[column.attribute]))
            if column.attribute in self.lists
            else column
            for column in batch.lists
        ]
        return with_lists(batch, read)

    def read_event(self, attributes: Mapping[str, Value]) -> Mapping[str, Value]:
        """The attributes of an event, with these texts as times."""
        return with_times(attributes, self.names) if self.names else attributes


NOTHING: Final = ReadAsTimes()

_NONE: Final[NDArray[np.int64]] = np.zeros(0, np.int64)


def _with_numbers(
    places: Collection[Place], numbers: Mapping[str, int]
) -> tuple[NDArray[np.int32], dict[int, frozenset[Place]]]:
    """Attributes among places by number; and the places of elements, by the number of their list."""
    names, in_lists = split(places)
    found = np.array([numbers[name] for name in names if name in numbers], np.int32)
    return found, {numbers[name]: inner for name, inner in in_lists.items() if name in numbers}


def _read_lists(rows: Sequence[List] | ArrowLists, places: frozenset[Place]) -> Sequence[List] | ArrowLists:
    """Lists whose elements have texts at these places read as times."""
    if not isinstance(rows, ArrowLists):
        return [list_with_times(row, places) for row in rows]
    inner = ReadAsTimes._numbered(places, (), _numbers(rows))
    return rows._replace(elements=inner.read(rows.elements), times=rows.times | places)


def _kept_in_lists(rows: Sequence[List] | ArrowLists, places: frozenset[Place]) -> "Counter[Place]":
    """How many texts of elements could be read as times, by their places."""
    found: Counter[Place] = Counter()
    if isinstance(rows, ArrowLists):
        inner = ReadAsTimes._numbered((), places, _numbers(rows))
        counts = inner._kept_in(rows.elements)
        for number in np.flatnonzero(counts).tolist():
            found[rows.names[number]] += int(counts[number])
        columns = {rows.names[column.attribute]: column.rows for column in rows.elements.lists}
        for name, deeper in split(places)[1].items():
            if name in columns:
                _add_inside(found, name, _kept_in_lists(columns[name], deeper))
        return found
    names, in_lists = split(places)
    for row in rows:
        for element in row:
            attributes = attributes_of(element)
            for name in names:
                value = attributes.get(name)
                found[name] += type(value) is str and time_in(value) is not None
            for name, deeper in in_lists.items():
                value = attributes.get(name)
                if type(value) is tuple:
                    _add_inside(found, name, _kept_in_lists([value], deeper))
    return found


def _add_inside(found: "Counter[Place]", name: str, more: "Counter[Place]") -> None:
    for place, count in more.items():
        found[inside(name, place)] += count


def _numbers(rows: ArrowLists) -> dict[str, int]:
    return {name: number for number, name in enumerate(rows.names)}


def read_times(batch: Batch, attributes: NDArray[np.int32]) -> Batch:
    """The batch, texts of the attributes with these numbers as times where they can be read so."""
    places, nanoseconds = _times_among(batch, attributes)
    if not len(places):
        return batch
    state, bits, lengths = batch.value_state.copy(), batch.value_bits.copy(), batch.value_length.copy()
    state[places], bits[places], lengths[places] = TIME, nanoseconds, 0
    return batch._replace(value_state=state, value_bits=bits, value_length=lengths)


def _times_among(batch: Batch, attributes: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The values of these attributes that are texts and can be read as times, and their nanoseconds."""
    texts = np.flatnonzero(batch.value_state == STRING)
    if not len(texts):
        return texts, texts
    wanted = np.zeros(max(int(batch.value_attribute[texts].max()), int(attributes.max())) + 1, np.bool_)
    wanted[attributes] = True
    texts = texts[wanted[batch.value_attribute[texts]]]
    length = batch.value_length[texts].astype(np.int64)
    fitting = (length >= _LENGTH_MIN) & (length <= _LENGTH_MAX)
    texts, length = texts[fitting], length[fitting]
    nanoseconds, are_times = times_of(batch.arena, batch.value_bits[texts], length)
    return texts[are_times], nanoseconds[are_times]


def times_of(
    arena: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The nanoseconds of texts, and which are times, as `Time.parse` has it."""
    nanoseconds, are_times = np.zeros(len(start), np.int64), np.zeros(len(start), np.bool_)
    if len(start) <= _FEW:
        _read_each(arena, start, length, np.arange(len(start)), nanoseconds, are_times)
        return nanoseconds, are_times
    for size in np.unique(length).tolist():
        some = np.flatnonzero(length == size)
        # A row for each place in the texts.
        text = arena[start[some] + np.arange(size)[:, None]]
        # Nearly all that is no time ends here.
        looks = (text[4] == ord("-")) & (text[7] == ord("-"))
        if not looks.all():
            some, text = some[looks], text[:, looks]
        if not len(some):
            continue
        for shape, here in _alike(text):
            found = TIME_TEXT.fullmatch(shape.tobytes().decode("latin-1"))
            if found is None:
                continue
            spans = [found.span(group) for group in range(1, 11)]
            nanoseconds[some[here]], are_times[some[here]], is_late = _read_alike(text[:, here], spans)
            _read_each(arena, start, length, some[here[is_late]], nanoseconds, are_times)
    return nanoseconds, are_times


def _alike(text: NDArray[np.uint8]) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Texts that are the same but for digits: what they are with zeros for these, and which they are."""
    shapes = np.where((text >= ord("0")) & (text <= ord("9")), np.uint8(ord("0")), text)
    left = np.arange(text.shape[1])
    for _ in range(_SHAPES):
        same = (shapes[:, left] == shapes[:, left[0], None]).all(axis=0)
        yield shapes[:, left[0]], left[same]
        left = left[~same]
        if not len(left):
            return
    # Few columns are written in so many ways: to sort them takes longer.
    kinds, which = np.unique(shapes[:, left], axis=1, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    ends = np.searchsorted(which.reshape(-1)[order], np.arange(kinds.shape[1] + 1))
    for number, (first, last) in enumerate(pairwise(ends.tolist())):
        yield kinds[:, number], left[order[first:last]]


def _read_each(
    arena: NDArray[np.uint8],
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    places: NDArray[np.int64],
    nanoseconds: NDArray[np.int64],
    are_times: NDArray[np.bool_],
) -> None:
    for at in places.tolist():
        found = time_in(arena[start[at] : start[at] + length[at]].tobytes().decode())
        are_times[at] = found is not None
        nanoseconds[at] = 0 if found is None else found.nanoseconds


def _read_alike(
    text: NDArray[np.uint8], spans: list[tuple[int, int]]
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Texts with the same fields in the same places: nanoseconds, which are times, and which may not fit."""

    def number(field: int, digits: int = 0, sign: int = 0) -> NDArray[np.int64]:
        first, last = spans[field][0] + sign, spans[field][1]
        value = np.zeros(text.shape[1], np.int64)
        for at in range(first, last):
            value = value * 10 + (text[at].astype(np.int64) - ord("0"))
        return value * 10 ** max(0, digits - (last - first)) if last > first else value

    year, month, day, hour, minute, second = (number(field) for field in range(6))
    valid = (year >= 1) & (month >= 1) & (month <= 12)
    months = np.where(valid, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    days = (months + 1).astype("datetime64[D]").astype(np.int64) - first
    valid &= (day >= 1) & (day <= days) & (hour < 24) & (minute < 60) & (second < 60)
    seconds = (first + day - 1) * 86_400 + hour * 3_600 + minute * 60 + second
    if spans[8][0] >= 0:
        hours, minutes = number(8, sign=1), number(9)
        valid &= (hours <= 23) & (minutes <= 59)
        is_west = text[spans[8][0]] == ord("-")
        seconds -= (hours * 60 + minutes) * np.where(is_west, -60, 60)
    is_late = valid & (np.abs(seconds) >= _SECONDS_MAX)
    valid &= ~is_late
    return np.where(valid, seconds, 0) * 1_000_000_000 + number(6, 9), valid, is_late


Found: TypeAlias = tuple[frozenset[int | tuple[str, ...]], frozenset[int | tuple[str, ...]]]
"""Attributes by number, and places of elements."""


class AskedTimes:
    """Which attributes the living filters compare with times, and which also with strings. See the module.

    Attributes have the numbers of a store's names.
    """

    def __init__(self) -> None:
        self._found: Found = frozenset(), frozenset()
        self.is_counting = False
        """Whether removed conditions have to be shown, too."""
        self._counts: NDArray[np.int64] = np.zeros(0, np.int64)
        """For each attribute, how many conditions are on times, and how many on strings."""
        self._asks = False
        self._is_stale = False
        self._inside: dict[int, NDArray[np.int64]] = {}
        """For computed attributes, what their filters ask for, as places in the counts."""
        self._seen = 0
        self._inside_lists: dict[int, tuple[tuple[Place, Family], ...]] = {}
        """For computed attributes, the times and strings that they ask elements for."""
        self._lists: Counter[tuple[Place, Family]] = Counter()
        """How many conditions ask elements for each."""

    def begin_again(self, *, counting: bool) -> None:
        """Forget everything; with `counting`, all conditions are read the next time."""
        self._found = frozenset(), frozenset()
        self.is_counting = False
        self._asks = self._is_stale = counting

    def load(self, asked: "Asked", names: dict[str, int]) -> None:
        """Take what was known of filters that were saved."""
        times, strings = (
            frozenset(
                names[place] if isinstance(place, str) else place
                for place in some
                if (place if isinstance(place, str) else place[0]) in names
            )
            for some in (asked.times, asked.strings)
        )
        self._found = times, times & strings
        self._asks = bool(asked.times)

    def renumber(self) -> None:
        """Attributes have other numbers now."""
        self._inside, self._inside_lists, self._seen = {}, {}, 0
        self.is_counting, self._is_stale = False, self._asks

    def add(self, attribute: NDArray[np.int32], kind: NDArray[np.uint8], names: dict[str, int]) -> None:
        """Take note of conditions that come."""
        if self._is_stale:
            return
        if self.is_counting:
            self._count(attribute, kind, names, 1)
        elif self._asks or self._ask_for_times(attribute, kind, names):
            self._asks = self._is_stale = True

    def remove(self, attribute: NDArray[np.int32], kind: NDArray[np.uint8], names: dict[str, int]) -> None:
        """Take note of conditions that go."""
        if self.is_counting:
            self._count(attribute, kind, names, -1)

    def lose(self) -> None:
        """Conditions go that are not shown."""
        self._is_stale = self._asks

    def settle(self, conditions: Callable[[], "Iterator[Conditions]"], names: dict[str, int]) -> Found:
        """The attributes that are compared with times, and those of them that are with strings, too.

        `conditions` gives those of all living filters.
        """
        if self._is_stale:
            self._counts = np.zeros(2 * len(names), np.int64)
            self._lists.clear()
            self.is_counting, self._is_stale = True, False
            for _positions, _offsets, attribute, kind in conditions():
                self._count(attribute, kind, names, 1)
        if self.is_counting:
            times, strings = self._counts.reshape(-1, 2).T > 0
            both = np.flatnonzero(times & strings)
            asked = (
                place for (place, family), count in self._lists.items() if count and family is Family.TIME
            )
            in_lists = {place for place in asked if not isinstance(place, str)}
            self._found = (
                frozenset(np.flatnonzero(times).tolist()).union(in_lists),
                frozenset(both.tolist()).union(
                    place for place in in_lists if self._lists[place, Family.STRING]
                ),
            )
        return self._found

    def _count(
        self, attribute: NDArray[np.int32], kind: NDArray[np.uint8], names: dict[str, int], sign: int
    ) -> None:
        if 2 * len(names) > len(self._counts):
            grown = np.zeros(4 * len(names), np.int64)
            grown[: len(self._counts)] = self._counts
            self._counts = grown
        self._look_inside(names)
        attribute, kind = _of_satisfiable(attribute, kind)
        places = self._places(attribute, kind)
        self._counts += sign * np.bincount(places, minlength=len(self._counts))
        if self._inside_lists:
            numbers, counts = np.unique(attribute, return_counts=True)
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                for key in self._inside_lists.get(number, ()):
                    self._lists[key] += sign * count

    def _places(self, attribute: NDArray[np.int32], kind: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Of conditions on times and strings, the places in the counts."""
        are_times = kind == Family.TIME
        some = are_times | (kind == Family.STRING) | (kind == PATTERN_ONLY)
        plain: NDArray[np.int64] = 2 * attribute[some].astype(np.int64) + ~are_times[some]
        if not self._inside:
            return plain
        inside = [self._inside[number] for number in attribute[~some].tolist() if number in self._inside]
        return np.concatenate([plain, *inside])

    def _ask_for_times(
        self, attribute: NDArray[np.int32], kind: NDArray[np.uint8], names: dict[str, int]
    ) -> bool:
        if (kind == Family.TIME).any():
            return True
        self._look_inside(names)
        attribute, kind = _of_satisfiable(attribute, kind)
        if self._inside and (self._places(attribute, kind) % 2 == 0).any():
            return True
        in_lists = map(self._inside_lists.get, np.unique(attribute).tolist()) if self._inside_lists else ()
        return any(family is Family.TIME for keys in in_lists for _place, family in keys or ())

    def _look_inside(self, names: dict[str, int]) -> None:
        """Know the computed attributes among the names that have come."""
        if len(names) == self._seen:
            return
        latest = islice(reversed(names), len(names) - self._seen)
        self._seen = len(names)
        for name in filter(is_computed, latest):
            asked = [
                (place, family)
                for place, families in behind(name).families.items()
                for family in (Family.TIME, Family.STRING)
                if family in families
            ]
            places = [
                2 * names[place] + (family is Family.STRING)
                for place, family in asked
                if isinstance(place, str)
            ]
            in_lists = tuple(one for one in asked if not isinstance(one[0], str))
            if places:
                self._inside[names[name]] = np.array(places, np.int64)
            if in_lists:
                self._inside_lists[names[name]] = in_lists


def _of_satisfiable(
    attribute: NDArray[np.int32], kind: NDArray[np.uint8]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Without what nothing can match, which stands under the first of all attributes."""
    some = kind != NEVER
    return attribute[some], kind[some]


class AskedOfFilters:
    """The same of filters as they are, by name, without kernels."""

    def __init__(self) -> None:
        self._times: dict[Place, int] = {}
        self._strings: dict[Place, int] = {}

    def count(self, f: Filter, sign: int) -> None:
        """Take note of a filter that comes (1) or goes (-1)."""
        for place, families in families_at([f]).items():
            for family, counts in ((Family.TIME, self._times), (Family.STRING, self._strings)):
                if family in families:
                    counts[place] = counts.get(place, 0) + sign

    @property
    def times(self) -> Iterator[Place]:
        """The attributes that are compared with times."""
        return (name for name, count in self._times.items() if count)

    @property
    def strings(self) -> Iterator[Place]:
        """The attributes that are compared with strings."""
        return (name for name, count in self._strings.items() if count)
