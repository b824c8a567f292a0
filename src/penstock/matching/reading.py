"""Reading a table back: its filters as columns, to be compiled anew, or as filters of the algebra."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from penstock.filters import valuesets
from penstock.filters.asked import families_in
from penstock.filters.filter import NEVER as NEVER_FILTER
from penstock.filters.filter import Filter, box
from penstock.filters.order import After, canonical_number
from penstock.filters.valuesets import Presence, ValueSet
from penstock.filters.wildcards import FOLDED, ONE, REGEX, RUN
from penstock.matching.columns import NEVER, PATTERN_ONLY, Columns, offsets_of
from penstock.matching.compile import shape_of, symbols_of
from penstock.matching.computed import filter_of, is_computed, raised
from penstock.matching.kernels import patterns as pattern_kernels
from penstock.matching.kernels.read import read_conditions
from penstock.matching.kernels.regex import REGEX as REGEX_PROGRAM
from penstock.matching.kernels.results import find_all
from penstock.matching.regex_programs import text_of
from penstock.matching.signatures import UNKNOWN, UNKNOWN_PATTERN, places_in
from penstock.matching.table import Table
from penstock.model.values import Family

_FILTERS: Final = 65_536
"""Filters whose conditions are looked at together."""


def columns_of(table: Table, keep: NDArray[np.bool_], names: dict[str, int]) -> Columns:
    """The filters that are to be kept, in their order; attributes are numbered as in `names`."""
    made = _columns_at(table, np.flatnonzero(keep))
    texts, text_of = _patterns(table, np.arange(len(table.patterns.slot)))
    number_of = np.array([names[name] for name in table.names] or [0], np.int32)
    return made._replace(
        names=list(names),
        literals=literals_of(table),
        patterns=texts,
        attribute=number_of[made.attribute],
        pattern=_renumbered(made.pattern, text_of),
    )


def columns_like(table: Table, positions: NDArray[np.int64], wanted: Columns) -> Columns:
    """Some filters, in the order of the positions, with the numbers of other columns; see `signatures`."""
    made = _columns_at(table, positions)
    number_of = np.full(len(table.names) + 1, UNKNOWN, np.int32)
    for number, name in enumerate(wanted.names):
        if name in table.names:
            number_of[table.names.index(name)] = number
    cells = table.cells
    literals = np.empty(len(wanted.literals), np.int64)
    lengths = np.fromiter(map(len, wanted.literals), np.int64, len(literals))
    text = np.frombuffer(b"".join(wanted.literals), np.uint8).copy()
    find_all(cells.literals, cells.literal_offsets, cells.literal_hash, text, offsets_of(lengths), literals)
    strings = np.repeat(made.kind == Family.STRING, np.diff(made.cut_offsets))
    made.cut_high[strings] = places_in(made.cut_high[strings], literals)
    pattern_of = np.full(len(table.patterns.slot) + 1, UNKNOWN, np.int64)
    for number, pattern in enumerate(wanted.patterns):
        pattern_of[_numbers_of(table, pattern)] = number
    return made._replace(
        names=wanted.names,
        literals=wanted.literals,
        patterns=wanted.patterns,
        attribute=number_of[made.attribute],
        pattern=_renumbered(made.pattern, pattern_of),
    )


def _columns_at(table: Table, positions: NDArray[np.int64]) -> Columns:
    """Some filters, with the table's own numbers: attributes are slots, and there are no texts."""
    offsets, slot, kind, cut_offsets, cut_high, cut_low, pattern_offsets, pattern = read_conditions(
        table.cells, table.filters, table.patterns.slot, positions
    )
    made = Columns(
        names=table.names,
        literals=(),
        patterns=(),
        ids=table.filters.ids[positions],
        offsets=offsets,
        attribute=slot,
        kind=kind,
        cut_offsets=cut_offsets,
        cut_high=cut_high,
        cut_low=cut_low,
        pattern_offsets=pattern_offsets,
        pattern=pattern,
    )
    # Filters that match nothing stand first, in no place.
    never = positions < table.places.always[0]
    return _with_never(made, never) if never.any() else made


def _renumbered(pattern: NDArray[np.int32], number_of: NDArray[np.int64]) -> NDArray[np.int32]:
    """References to patterns, required and forbidden, by other numbers."""
    if not len(pattern):
        return pattern
    required = pattern >= 0
    plain = number_of[np.where(required, pattern, ~pattern)]
    made = np.where(required, plain, ~plain).astype(np.int32)
    made[plain < 0] = UNKNOWN_PATTERN
    return made


def _with_never(columns: Columns, never: NDArray[np.bool_]) -> Columns:
    """Give the filters that match nothing the condition that says so; they have no other."""
    counts = np.diff(columns.offsets) + never
    offsets = offsets_of(counts)
    where = columns.offsets[:-1][never]
    return columns._replace(
        offsets=offsets,
        attribute=np.insert(columns.attribute, where, 0),
        kind=np.insert(columns.kind, where, NEVER),
        cut_offsets=np.insert(columns.cut_offsets, where, columns.cut_offsets[where]),
        pattern_offsets=np.insert(columns.pattern_offsets, where, columns.pattern_offsets[where]),
    )


def literals_of(table: Table) -> list[bytes]:
    """The strings of cuts."""
    data, offsets = table.cells.literals.tobytes(), table.cells.literal_offsets.tolist()
    return [data[a:b] for a, b in pairwise(offsets)]


class _Literals(Sequence[bytes]):
    """The strings of cuts, each read when it is asked for."""

    def __init__(self, table: Table) -> None:
        self._data, self._offsets = table.cells.literals, table.cells.literal_offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        text: bytes = self._data[self._offsets[number] : self._offsets[number + 1]].tobytes()
        return text


def _patterns(table: Table, numbers: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
    """The texts of some patterns, and for each pattern of the table which is its, if it is one of them."""
    patterns = table.patterns
    data, offsets = table.needles
    needles = np.searchsorted(patterns.needle_patterns, numbers, side="right") - 1
    texts: dict[str, int] = {}
    which = np.full(len(patterns.slot), UNKNOWN, np.int64)
    symbols, starts = patterns.symbols, patterns.program_offsets
    wild = {pattern_kernels.ONE: ONE, pattern_kernels.RUN: RUN}
    kinds, programs = patterns.kind[numbers].tolist(), patterns.program[numbers].tolist()
    for number, needle, kind, program in zip(
        numbers.tolist(), needles.tolist(), kinds, programs, strict=True
    ):
        how = kind & pattern_kernels.KINDS
        if how == pattern_kernels.GENERAL:
            found = symbols[starts[program] : starts[program + 1]]
            if found[0] == REGEX_PROGRAM:
                which[number] = texts.setdefault(REGEX + text_of(found), len(texts))
                continue
            text = "".join(wild.get(s) or chr(s) for s in found.tolist())
        else:
            tail = RUN if how == pattern_kernels.SUBSTRING else ""
            text = RUN + data[offsets[needle] : offsets[needle + 1]].tobytes().decode() + tail
        if kind & pattern_kernels.FOLDED:
            text = FOLDED + text
        which[number] = texts.setdefault(text, len(texts))
    return list(texts), which


def _numbers_of(table: Table, text: str) -> NDArray[np.int64]:
    """The numbers that a pattern has in a table, one for each slot that it is asked of."""
    patterns = table.patterns
    data, offsets = table.needles
    count = len(offsets) - 1
    needle, kind = shape_of(text)
    encoded = needle.encode()
    at = count  # those without a needle come last
    if encoded:
        at = bisect_left(
            range(count), encoded, key=lambda number: data[offsets[number] : offsets[number + 1]].tobytes()
        )
        if at == count or data[offsets[at] : offsets[at + 1]].tobytes() != encoded:
            return np.empty(0, np.int64)
    first, last = patterns.needle_patterns[at : at + 2].tolist()
    numbers: NDArray[np.int64] = first + np.flatnonzero(patterns.kind[first:last] == kind)
    if kind & pattern_kernels.KINDS != pattern_kernels.GENERAL:
        return numbers
    symbols = symbols_of(text)
    programs = patterns.program[numbers]
    starts = patterns.program_offsets[programs]
    same = patterns.program_offsets[programs + 1] - starts == len(symbols)
    same[same] = [
        np.array_equal(patterns.symbols[start : start + len(symbols)], symbols)
        for start in starts[same].tolist()
    ]
    found: NDArray[np.int64] = numbers[same]
    return found


def families_asked(tables: Iterable[Table]) -> Iterator[set[tuple[str, Family]]]:
    """The families that filters compare attributes with, by and by: those of the next some thousand filters.

    As a filter has it: to ask for presence or absence, or NaN, is to ask for no family.
    """
    plain = {int(family): family for family in Family} | {PATTERN_ONLY: Family.STRING}
    for table in tables:
        for first in range(0, table.size, _FILTERS):
            positions = np.arange(first, min(table.size, first + _FILTERS))
            _, slot, kind, *_ = read_conditions(table.cells, table.filters, table.patterns.slot, positions)
            pairs = np.unique(slot.astype(np.int64) << 8 | kind)
            asked = {
                (table.names[pair >> 8], plain[pair & 0xFF])
                for pair in pairs.tolist()
                if pair & 0xFF in plain
            }
            computed = [pair for pair in asked if is_computed(pair[0])]
            yield asked.difference(computed).union(*(families_in(filter_of(name)) for name, _ in computed))


class Conditions(NamedTuple):
    """What some filters ask for, without values."""

    positions: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """Where the conditions of each filter start."""
    attribute: NDArray[np.int32]
    kind: NDArray[np.uint8]


def conditions_of(table: Table, positions: NDArray[np.int64]) -> Iterator[Conditions]:
    """The conditions of some filters, some thousand filters at a time; attributes are slots."""
    for first in range(0, len(positions), _FILTERS):
        some = positions[first : first + _FILTERS]
        offsets, slot, kind, *_ = read_conditions(table.cells, table.filters, table.patterns.slot, some)
        yield Conditions(some, offsets, slot, kind)


def conditions_at(table: Table, positions: NDArray[np.int64]) -> int:
    """How many conditions some filters have in all, counted as `Table.constraints` counts them."""
    found = 0
    for first in range(0, len(positions), _FILTERS):
        some = positions[first : first + _FILTERS]
        offsets, *_ = read_conditions(table.cells, table.filters, table.patterns.slot, some)
        found += int(offsets[-1])
    return found


def filters_of(columns: Columns) -> list[Filter]:
    """Columns as filters of the algebra."""
    return [_filter(columns, f) for f in range(columns.filters)]


def filters_at(table: Table, positions: NDArray[np.int64]) -> list[Filter]:
    """Some filters of a table, in the order of the positions. Of the table no more is read than they need."""
    made = _columns_at(table, positions)
    used = np.unique(np.where(made.pattern < 0, ~made.pattern, made.pattern)).astype(np.int64)
    texts, text_of = _patterns(table, used)
    return filters_of(
        made._replace(literals=_Literals(table), patterns=texts, pattern=_renumbered(made.pattern, text_of))
    )


def _filter(columns: Columns, f: int) -> Filter:
    sets: dict[str, list[ValueSet]] = {}
    for c in range(columns.offsets[f], columns.offsets[f + 1]):
        if columns.kind[c] == NEVER:
            return NEVER_FILTER
        sets.setdefault(columns.names[columns.attribute[c]], []).append(value_set(columns, c))
    conditions = {
        name: found[0] if len(found) == 1 else valuesets.intersection_of(found)
        for name, found in sets.items()
    }
    # Several conditions on one attribute may leave it nothing to be.
    if any(states.is_empty for states in conditions.values()):
        return NEVER_FILTER
    return raised(box(conditions))


def value_set(columns: Columns, c: int) -> ValueSet:
    """A condition of columns as the algebra has it."""
    kind = int(columns.kind[c])
    if kind in (Presence.ABSENT, Presence.NAN, Presence.EXISTS):
        return {
            Presence.ABSENT: valuesets.ABSENT,
            Presence.NAN: valuesets.NAN,
            Presence.EXISTS: valuesets.EXISTS,
        }[Presence(kind)]
    found = range(columns.pattern_offsets[c], columns.pattern_offsets[c + 1])
    references = [int(columns.pattern[p]) for p in found]
    required = tuple(sorted(columns.patterns[p] for p in references if p >= 0))
    forbidden = tuple(sorted(columns.patterns[~p] for p in references if p < 0))
    if kind == PATTERN_ONLY:
        return valuesets.of_cuts(Family.STRING, ("",), required, forbidden)
    family = Family(kind)
    cuts = tuple(
        _point(columns, family, int(columns.cut_high[i]), int(columns.cut_low[i]))
        for i in range(columns.cut_offsets[c], columns.cut_offsets[c + 1])
    )
    return valuesets.of_cuts(family, cuts, required, forbidden)


def _point(columns: Columns, family: Family, high: int, low: int) -> object:
    if family is Family.BOOL:
        return bool(high)
    if family is Family.TIME:
        return high
    if family is Family.STRING:
        return columns.literals[high].decode() + "\0" * low
    bits = np.int64(high if high >= 0 else high ^ 0x7FFFFFFFFFFFFFFF)
    number = canonical_number(float(bits.view(np.float64)))
    if low > 1:
        number = int(number) + (low >> 1)
    return After(number) if low & 1 else number
