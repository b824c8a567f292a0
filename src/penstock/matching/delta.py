"""Filters that came lately: a table to which filters can be added one by one, and matched at once.

A compiled table (`table`) is smaller and quicker to match with, but takes about ten times as long to make.
So what is added stands here first, and is compiled later, in the background. Arrays only ever grow at their
end; a reader holds a `View`, which knows how many filters there were when it was taken.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.filters.filter import Filter
from penstock.matching.batch import DECIMAL, DOUBLE, FALSE, INTEGER, STRING, TIME, TRUE, Batch
from penstock.matching.columns import Columns, offsets_of, take
from penstock.matching.compile import shape_of, symbols_of
from penstock.matching.deaths import Deaths
from penstock.matching.kernels import patterns as pattern_kernels
from penstock.matching.kernels.delta import Raw, Run
from penstock.matching.kernels.delta_keys import literal_keys, sample_keys
from penstock.matching.kernels.delta_nodes import (
    POINTS_MAX,
    Forecast,
    make_run,
    place_raw,
)
from penstock.matching.reading import Conditions, filters_of
from penstock.matching.signatures import UNKNOWN, UNKNOWN_PATTERN, places_in
from penstock.matching.views import View, filters_of_entries
from penstock.model.values import Family

_NEWER: Final = 8_192
"""So many entries are kept apart from the others, to be arranged anew with every group that comes."""


class _Growing:
    """An array that grows at its end. What has been handed out never changes."""

    def __init__(self, dtype: Any, size: int = 0, columns: int = 0) -> None:
        self.array: NDArray[Any] = np.zeros((64, columns) if columns else 64, dtype)
        self.size = size

    def reserve(self, more: int) -> None:
        """Have room for so many more."""
        if self.size + more > len(self.array):
            grown = np.zeros((2 * (self.size + more), *self.array.shape[1:]), self.array.dtype)
            grown[: self.size] = self.array[: self.size]
            self.array = grown

    def extend(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        self.reserve(len(values))
        self.array[self.size : self.size + len(values)] = values
        self.size += len(values)

    def view(self) -> NDArray[Any]:
        """What there is now."""
        return self.array[: self.size]


class Delta(Deaths):
    """See the module. Changes are made by one thread at a time."""

    def __init__(self, forecast: Forecast | None = None) -> None:
        super().__init__()
        self._forecast = forecast or forecast_of(None)
        self._ids = _Growing(np.int32)
        self._offsets = _Growing(np.int64, 1)
        self._attribute = _Growing(np.int32)
        self._kind = _Growing(np.uint8)
        self._cut_offsets = _Growing(np.int64, 1)
        self._cut_high = _Growing(np.int64)
        self._cut_low = _Growing(np.int16)
        self._pattern_offsets = _Growing(np.int64, 1)
        self._pattern = _Growing(np.int32)
        self._literal_offsets = _Growing(np.int64, 1)
        self._literals = _Growing(np.uint8)
        self._literal_key = _Growing(np.int64)
        self._pattern_kind = _Growing(np.uint8)
        self._needle_offsets = _Growing(np.int64, 1)
        self._needles = _Growing(np.uint8)
        self._program_offsets = _Growing(np.int64, 1)
        self._symbols = _Growing(np.int32)
        self._pattern_numbers: dict[str, int] = {}
        self._tests = _Growing(np.int64, columns=3)
        self._levels: NDArray[np.uint64] = np.zeros((0, 5), np.uint64)
        self._flags: NDArray[np.int32] = np.zeros(0, np.int32)
        self._entries = _Growing(np.int64, columns=6)
        self._always = _Growing(np.int32)
        self._older_end = 0
        self._dead_entries = 0
        self._older = self._run(0, 0)
        self._newer = self._older
        self.distinct = True
        """Whether no id has two filters here."""
        self.idle = 0
        """How many events were matched, and how many filters tested slowly, since something was added."""
        self.long_strings = False
        """Whether events with strings came that are better matched with a compiled table."""
        self._view: View | None = None

    def is_idle(self, events_each: int, events: int) -> bool:
        """Whether so many events for each filter, and so many more, came since the last was added; or an
        event that a compiled table is better for."""
        return self.long_strings or self.idle > events_each * self.live + events

    @property
    def size(self) -> int:
        """How many filters there are."""
        return self._ids.size

    @property
    def ids(self) -> NDArray[np.int32]:
        """For each filter, the number of its id."""
        return self._ids.view()

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        growing = sum(part.array.nbytes for part in vars(self).values() if isinstance(part, _Growing))
        arrays: list[NDArray[Any]] = [*self._older, *self._newer, self._levels, self._flags, self.gone]
        return int(growing + sum(array.nbytes for array in arrays))

    def insert(self, columns: Columns) -> int:
        """Add filters; returns the position of the first."""
        first = self.size
        first_literal, first_cut, first_pattern = (
            self._literal_key.size,
            self._cut_high.size,
            self._pattern.size,
        )
        self._add_literals(columns.literals)
        number_of = np.array([self._number_of(text) for text in columns.patterns] or [0], np.int32)
        self._ids.extend(columns.ids)
        self._offsets.extend(columns.offsets[1:] + self._kind.size)
        self._attribute.extend(columns.attribute)
        self._kind.extend(columns.kind)
        self._cut_offsets.extend(columns.cut_offsets[1:] + first_cut)
        self._cut_high.extend(columns.cut_high)
        strings = np.repeat(columns.kind == Family.STRING, np.diff(columns.cut_offsets))
        self._cut_high.array[first_cut : self._cut_high.size][strings] += first_literal
        self._cut_low.extend(columns.cut_low)
        self._pattern_offsets.extend(columns.pattern_offsets[1:] + first_pattern)
        plain = number_of[np.where(columns.pattern < 0, ~columns.pattern, columns.pattern)]
        self._pattern.extend(np.where(columns.pattern < 0, ~plain, plain))
        self.have_room()
        self._have_attributes(len(columns.names))
        self._place(first)
        self.idle = 0
        self._view = None
        return first

    def _add_literals(self, literals: Sequence[bytes]) -> None:
        first = self._literal_key.size
        lengths = np.fromiter(map(len, literals), np.int64, len(literals))
        self._literal_offsets.extend(np.cumsum(lengths) + self._literals.size)
        self._literals.extend(np.frombuffer(b"".join(literals), np.uint8))
        self._literal_key.extend(np.zeros(len(literals), np.int64))
        end = first + len(literals)
        literal_keys(self._literals.array, self._literal_offsets.array, first, end, self._literal_key.array)

    def _number_of(self, text: str) -> int:
        """The number of a pattern."""
        number = self._pattern_numbers.get(text)
        if number is None:
            number = self._pattern_numbers[text] = len(self._pattern_numbers)
            needle, kind = shape_of(text)
            if kind & pattern_kernels.FOLDED:
                # Here texts are not folded until a filter asks for it: there is nothing to find before.
                needle, kind = "", pattern_kernels.GENERAL | pattern_kernels.FOLDED
            self._pattern_kind.extend(np.array([kind], np.uint8))
            self._needles.extend(np.frombuffer(needle.encode(), np.uint8))
            self._needle_offsets.extend(np.array([self._needles.size]))
            if kind & pattern_kernels.KINDS == pattern_kernels.GENERAL:
                self._symbols.extend(symbols_of(text))
            self._program_offsets.extend(np.array([self._symbols.size]))
        return number

    def _have_attributes(self, count: int) -> None:
        if count > len(self._flags):
            grown = count + count // 4 + 16
            levels, flags = np.zeros((grown, 5), np.uint64), np.zeros(grown, np.int32)
            levels[: len(self._levels)], flags[: len(self._flags)] = self._levels, self._flags
            self._levels, self._flags = levels, flags

    def _place(self, first: int) -> None:
        """Give filters from the first on their nodes."""
        self._entries.reserve(POINTS_MAX * (self.size - first))
        self._always.reserve(self.size - first)
        self._tests.reserve(self._kind.size - self._tests.size)
        self._tests.size = self._kind.size
        end, self._always.size = place_raw(
            first,
            self.size,
            self._ids.array,
            self._offsets.array,
            self._attribute.array,
            self._kind.array,
            self._cut_offsets.array,
            self._cut_high.array,
            self._cut_low.array,
            self._pattern_offsets.array,
            self._pattern.array,
            self._literal_offsets.array,
            self._literals.array,
            self._literal_key.array,
            self._pattern_kind.array,
            self._needle_offsets.array,
            self._needles.array,
            self._forecast,
            self._tests.array,
            self._levels,
            self._flags,
            self._entries.array,
            self._entries.size,
            self._always.array,
            self._always.size,
        )
        self._entries.size = end
        if end - self._older_end > _NEWER:
            self._arrange()
        else:
            self._newer = self._run(self._older_end, end)

    def _arrange(self) -> None:
        """Make one run of all entries, without those of the dead: who still sees them has an older run."""
        entries = self._entries.view()
        if self._dead_entries:
            # A copy: somebody may be looking at the others.
            entries = entries[self.are_alive(filters_of_entries(entries))]
            self._entries = _Growing(np.int64, columns=6)
            self._entries.extend(entries)
            self._dead_entries = 0
        self._older_end = self._entries.size
        self._older = self._run(0, self._older_end)
        self._newer = self._run(0, 0)

    def kill(self, positions: NDArray[np.int64]) -> None:
        """Remove filters, which are alive."""
        super().kill(positions)
        self._dead_entries += len(positions)
        if self._dead_entries > max(_NEWER, self._older_end // 4):
            self._arrange()
        self._view = None

    def _run(self, first: int, last: int) -> Run:
        return Run(*make_run(first, last, self._entries.array))

    def _raw(self) -> Raw:
        return Raw(
            *(
                part.array
                for part in (
                    self._ids,
                    self._offsets,
                    self._tests,
                    self._kind,
                    self._cut_offsets,
                    self._cut_high,
                    self._cut_low,
                    self._pattern_offsets,
                    self._pattern,
                    self._literal_offsets,
                    self._literals,
                    self._literal_key,
                    self._pattern_kind,
                    self._needle_offsets,
                    self._needles,
                    self._program_offsets,
                    self._symbols,
                )
            )
        )

    def view(self) -> View:
        """What there is now, for readers."""
        if self._view is None:
            self._view = View(self)
        return self._view

    def columns(self, keep: NDArray[np.bool_], names: dict[str, int]) -> Columns:
        """The filters that are to be kept, as columns."""
        return self.columns_at(np.flatnonzero(keep), names)

    def columns_at(self, positions: NDArray[np.int64], names: dict[str, int]) -> Columns:
        """Some filters as columns."""
        made = self._columns_at(positions)
        # A literal may be here twice; in columns it is there once.
        strings = np.repeat(made.kind == Family.STRING, np.diff(made.cut_offsets))
        used, which = np.unique(made.cut_high[strings], return_inverse=True)
        texts = [self._literal(number) for number in used.tolist()]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        made.cut_high[strings] = np.array([numbers[text] for text in texts], np.int64)[which]
        return made._replace(names=list(names), literals=list(numbers), patterns=list(self._pattern_numbers))

    def columns_like(self, positions: NDArray[np.int64], names: dict[str, int], wanted: Columns) -> Columns:
        """Some filters with the numbers of other columns; see `signatures`."""
        made = self._columns_at(positions)
        strings = np.repeat(made.kind == Family.STRING, np.diff(made.cut_offsets))
        used, which = np.unique(made.cut_high[strings], return_inverse=True)
        made.cut_high[strings] = self._literals_like(used, wanted.literals)[which]
        attributes = np.array([names.get(name, UNKNOWN) for name in wanted.names], np.int64)
        patterns = [self._pattern_numbers.get(text, UNKNOWN) for text in wanted.patterns]
        required = made.pattern >= 0
        plain = places_in(np.where(required, made.pattern, ~made.pattern), np.array(patterns, np.int64))
        return made._replace(
            names=wanted.names,
            literals=wanted.literals,
            patterns=wanted.patterns,
            attribute=places_in(made.attribute, attributes).astype(np.int32),
            pattern=np.where(plain < 0, UNKNOWN_PATTERN, np.where(required, plain, ~plain)).astype(np.int32),
        )

    def _columns_at(self, positions: NDArray[np.int64]) -> Columns:
        """Some filters, with the delta's own numbers, and without texts."""
        return take(
            Columns(
                names=(),
                literals=(),
                patterns=(),
                ids=self._ids.view(),
                offsets=self._offsets.view(),
                attribute=self._attribute.view(),
                kind=self._kind.view(),
                cut_offsets=self._cut_offsets.view(),
                cut_high=self._cut_high.view(),
                cut_low=self._cut_low.view(),
                pattern_offsets=self._pattern_offsets.view(),
                pattern=self._pattern.view(),
            ),
            positions,
        )

    def _literal(self, number: int) -> bytes:
        offsets = self._literal_offsets.array
        return self._literals.array[offsets[number] : offsets[number + 1]].tobytes()

    def _literals_like(self, numbers: NDArray[np.int64], wanted: Sequence[bytes]) -> NDArray[np.int64]:
        """For each of some literals its place among the wanted ones, or UNKNOWN."""
        lengths = np.diff(self._literal_offsets.view())[numbers]
        place_of = {text: place for place, text in enumerate(wanted)}
        found = np.full(len(numbers), UNKNOWN, np.int64)
        # Most are told apart by their length, without being read.
        for at in np.flatnonzero(np.isin(lengths, [len(text) for text in wanted])).tolist():
            found[at] = place_of.get(self._literal(int(numbers[at])), UNKNOWN)
        return found

    def conditions_at(self, positions: NDArray[np.int64], names: dict[str, int]) -> Iterator[Conditions]:
        """The conditions of some filters."""
        made = self._columns_at(positions)
        yield Conditions(positions, made.offsets, made.attribute, made.kind)

    def filters_at(self, positions: NDArray[np.int64], names: dict[str, int]) -> list[Filter]:
        """Some of the filters."""
        return filters_of(self.columns_at(positions, names))

    def positions_of(self, number: int) -> NDArray[np.int64]:
        """Where the living filters of an id stand."""
        found = np.flatnonzero(self.ids == number)
        return found[self.are_alive(found)]


def forecast_of(sample: Batch | None) -> Forecast:
    """What a sample of events says about those to come."""
    if sample is None or not len(sample.start):
        return Forecast(0.0, np.zeros(0), np.zeros(1, np.int64), np.zeros(0, np.int64))
    keys = np.zeros(len(sample.value_state), np.int64)
    sample_keys(sample, keys)
    attribute = sample.value_attribute[sample.entries].astype(np.int64)
    family = _FAMILY_OF_STATE[sample.value_state[sample.entries]]
    count = int(attribute.max(initial=-1)) + 1
    known = family >= 0
    group = 4 * attribute[known] + family[known]
    key = keys[sample.entries][known]
    return Forecast(
        events=float(len(sample.start)),
        present=np.bincount(attribute, minlength=count).astype(np.float64),
        offsets=offsets_of(np.bincount(group, minlength=4 * count)),
        keys=key[np.lexsort((key, group))],
    )


_FAMILY_OF_STATE: Final = np.full(16, -1, np.int64)
_FAMILY_OF_STATE[[FALSE, TRUE, INTEGER, DOUBLE, TIME, STRING, DECIMAL]] = [0, 0, 1, 1, 2, 3, 1]
