"""Reading a table back: its filters as columns, to be compiled anew, or as filters of the algebra."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.filters import valuesets
from penstock.filters.filter import NEVER as NEVER_FILTER
from penstock.filters.filter import Filter, box
from penstock.filters.order import canonical_number
from penstock.filters.patterns import ONE, RUN
from penstock.filters.valuesets import Presence, ValueSet
from penstock.matching.columns import NEVER, PATTERN_ONLY, Columns, offsets_of
from penstock.matching.kernels import patterns as pattern_kernels
from penstock.matching.kernels.read import read_conditions
from penstock.matching.table import Table
from penstock.model.values import Family

_FILTERS: Final = 65_536
"""Filters whose conditions are looked at together."""


def columns_of(table: Table, keep: NDArray[np.bool_], names: dict[str, int]) -> Columns:
    """The filters that are to be kept, in their order; attributes are numbered as in `names`."""
    texts, text_of = _patterns(table)
    positions = np.flatnonzero(keep)
    offsets, slot, kind, cut_offsets, cut_high, cut_low, pattern_offsets, pattern = read_conditions(
        table.cells, table.filters, table.patterns.slot, positions
    )
    # Filters that match nothing stand first, in no place.
    never = positions < table.places.always[0]
    required = pattern >= 0
    plain = text_of[np.where(required, pattern, ~pattern)] if len(pattern) else pattern
    number_of = np.array([names[name] for name in table.names] or [0], np.int32)
    made = Columns(
        names=list(names),
        literals=literals_of(table),
        patterns=texts,
        ids=table.filters.ids[positions],
        offsets=offsets,
        attribute=number_of[slot],
        kind=kind,
        cut_offsets=cut_offsets,
        cut_high=cut_high,
        cut_low=cut_low,
        pattern_offsets=pattern_offsets,
        pattern=np.where(required, plain, ~plain).astype(np.int32),
    )
    return _with_never(made, never) if never.any() else made


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


def _patterns(table: Table) -> tuple[list[str], NDArray[np.int64]]:
    """The texts of all patterns, and for each pattern of the table which is its."""
    patterns = table.patterns
    data, offsets = table.needles[0].tobytes(), table.needles[1].tolist()
    needles = [data[a:b].decode() for a, b in pairwise(offsets)]
    needle_of = np.repeat(np.arange(len(needles) + 1), np.diff(patterns.needle_patterns)).tolist()
    texts: dict[str, int] = {}
    which = np.empty(len(patterns.slot), np.int64)
    kinds, programs = patterns.kind.tolist(), patterns.program.tolist()
    symbols, starts = patterns.symbols.tolist(), patterns.program_offsets.tolist()
    wild = {pattern_kernels.ONE: ONE, pattern_kernels.RUN: RUN}
    for number, kind in enumerate(kinds):
        if kind == pattern_kernels.GENERAL:
            program = programs[number]
            text = "".join(wild.get(s) or chr(s) for s in symbols[starts[program] : starts[program + 1]])
        else:
            tail = RUN if kind == pattern_kernels.SUBSTRING else ""
            text = RUN + needles[needle_of[number]] + tail
        which[number] = texts.setdefault(text, len(texts))
    return list(texts), which


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
            yield {
                (table.names[pair >> 8], plain[pair & 0xFF])
                for pair in pairs.tolist()
                if pair & 0xFF in plain
            }


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
    """Some filters of a table, in the order of the positions."""
    keep = np.zeros(table.size, np.bool_)
    keep[positions] = True
    names = {name: number for number, name in enumerate(table.names)}
    found = filters_of(columns_of(table, keep, names))
    by_position = dict(zip(np.flatnonzero(keep).tolist(), found, strict=True))
    return [by_position[position] for position in positions.tolist()]


def _filter(columns: Columns, f: int) -> Filter:
    sets: dict[str, list[ValueSet]] = {}
    for c in range(columns.offsets[f], columns.offsets[f + 1]):
        if columns.kind[c] == NEVER:
            return NEVER_FILTER
        sets.setdefault(columns.names[columns.attribute[c]], []).append(value_set(columns, c))
    return box(
        {
            name: found[0] if len(found) == 1 else valuesets.intersection_of(found)
            for name, found in sets.items()
        }
    )


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
    return int(number) + low if low else number
