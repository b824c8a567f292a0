"""Signatures: which of the filters that an id has are equal to some that are looked for.

To read a filter back takes time, and an id may have thousands. So what is looked for is encoded as columns,
the filters that the id has are brought into columns with the same numbers, and both get signatures of 64
bits. Only what has the right one is read back, to be sure.

Equal filters have equal signatures but for one case: `add_constraints` keeps several conditions on one
attribute as they came, and the algebra makes one of them only when they are read. Filters that have such
conditions (and, in tables, others that look as if they had) are read back where no signature fits.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.filters.filter import Filter
from penstock.matching.columns import NEVER, PATTERN_ONLY, Columns, ColumnsBuilder
from penstock.model.values import Family

UNKNOWN: Final = -1
"""The number of an attribute or a literal that no wanted filter has."""

UNKNOWN_PATTERN: Final = 2**31 - 1
"""What stands for a pattern, required or forbidden, that no wanted filter has."""

_K1: Final = np.uint64(0x9E3779B97F4A7C15)
_K2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_PATTERN: Final = 16
"""Stands for the kind of condition that a pattern is; beyond all kinds in columns."""


class Holder(Protocol):
    """What has filters: a part."""

    def filters_at(self, positions: NDArray[np.int64], names: dict[str, int]) -> list[Filter]:
        """Some of the filters, read back."""

    def columns_like(self, positions: NDArray[np.int64], names: dict[str, int], wanted: Columns) -> Columns:
        """Some of the filters as columns whose attributes, literals and patterns are numbered as those of
        `wanted`; what is not there is UNKNOWN."""


class Place(NamedTuple):
    """Where a filter stands: the number of its holder, and its position there."""

    holder: int
    position: int


class Wanted:
    """Filters that are looked for."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self.filters = filters
        builder = ColumnsBuilder({})
        for f in filters:
            builder.add(0, f)
        self._columns = builder.build()
        self._conditions = _of_conditions(self._columns)
        self._signatures: list[int] = _sums(self._conditions, self._columns.offsets).tolist()

    def find(
        self, held: Sequence[tuple[Holder, NDArray[np.int64]]], names: dict[str, int]
    ) -> list[Place] | None:
        """Where each of the filters stands, no two in one place; None where one is not there."""
        alike, loose = self._candidates(held, names)
        found: list[Place] = []
        missing: list[Filter] = []
        for f, signature in zip(self.filters, self._signatures, strict=True):
            places = alike.get(signature, [])
            at = next((at for at, place in enumerate(places) if _read(held, place, names) == f), None)
            if at is None:
                missing.append(f)
            else:
                found.append(places.pop(at))
        if not missing:
            return found
        taken = set(found)
        rest = _find_read(missing, [place for place in loose if place not in taken], held, names)
        return None if rest is None else found + rest

    def _candidates(
        self, held: Sequence[tuple[Holder, NDArray[np.int64]]], names: dict[str, int]
    ) -> tuple[dict[int, list[Place]], list[Place]]:
        """The filters with each wanted signature; and those that may be equal whatever theirs is."""
        alike: dict[int, list[Place]] = {}
        loose: list[Place] = []
        wanted = np.array(self._signatures, np.uint64)
        for number, (holder, positions) in enumerate(held):
            columns = holder.columns_like(positions, names, self._columns)
            conditions = _of_conditions(columns)
            signatures = _sums(conditions, columns.offsets)
            for at in np.flatnonzero(np.isin(signatures, wanted)).tolist():
                alike.setdefault(int(signatures[at]), []).append(Place(number, int(positions[at])))
            may = self._may_be_equal(columns, conditions)
            loose += [Place(number, position) for position in positions[may].tolist()]
        return alike, loose

    def _may_be_equal(self, columns: Columns, conditions: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which filters have several conditions on an attribute that may amount to what is wanted."""
        shared = _are_shared(columns)
        several: NDArray[np.bool_] = _sums(shared, columns.offsets) > 0
        if not all(f.satisfiable for f in self.filters):
            # What contradicts itself may be about anything.
            return several
        # The other conditions stay as they are, and no pattern comes out that did not go in.
        strange = _sums(~shared & ~np.isin(conditions, self._conditions), columns.offsets)
        unknown = _sums(columns.attribute == UNKNOWN, columns.offsets)
        needed = _patterns_known(self._columns).min()
        patterns = _patterns_known(columns)
        may: NDArray[np.bool_] = several & (strange == 0) & (unknown == 0) & (patterns >= needed)
        return may


def places_in(values: NDArray[np.signedinteger], known: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each value its place among the known ones, or UNKNOWN."""
    if not len(known):
        return np.full(len(values), UNKNOWN, np.int64)
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known, values, sorter=order), len(known) - 1)]
    return np.where(known[at] == values, at, UNKNOWN)


def _read(held: Sequence[tuple[Holder, NDArray[np.int64]]], place: Place, names: dict[str, int]) -> Filter:
    return held[place.holder][0].filters_at(np.array([place.position], np.int64), names)[0]


def _find_read(
    wanted: list[Filter],
    places: list[Place],
    held: Sequence[tuple[Holder, NDArray[np.int64]]],
    names: dict[str, int],
) -> list[Place] | None:
    """Where filters stand, found by reading all that stand in some places."""
    by_filter: dict[Filter, list[Place]] = {}
    for number, (holder, _) in enumerate(held):
        positions = [place.position for place in places if place.holder == number]
        if positions:
            read = holder.filters_at(np.array(positions, np.int64), names)
            for f, position in zip(read, positions, strict=True):
                by_filter.setdefault(f, []).append(Place(number, position))
    found = [here.pop() if (here := by_filter.get(f)) else None for f in wanted]
    return None if None in found else [place for place in found if place is not None]


def _of_conditions(columns: Columns) -> NDArray[np.uint64]:
    """For each condition a number that depends on all that it says; patterns in whichever order."""
    counts = np.diff(columns.cut_offsets)
    attribute = np.where(columns.kind == NEVER, 0, columns.attribute)
    place = np.arange(len(columns.cut_high)) - np.repeat(columns.cut_offsets[:-1], counts)
    cuts = _sums(_mixed(columns.cut_high, columns.cut_low, place), columns.cut_offsets)
    conditions = _mixed(cuts, attribute, columns.kind, counts)
    # A pattern is about strings by itself: a table leaves out that it is.
    conditions[(columns.kind == PATTERN_ONLY) | _are_whole(columns)] = 0
    patterns = _mixed(
        np.repeat(attribute, np.diff(columns.pattern_offsets)), columns.pattern, np.full(1, _PATTERN)
    )
    return conditions + _sums(patterns, columns.pattern_offsets)


def _are_whole(columns: Columns) -> NDArray[np.bool_]:
    """For each condition whether it says no more than that there is a string."""
    empty = next((number for number, text in enumerate(columns.literals) if not text), None)
    whole: NDArray[np.bool_] = (columns.kind == Family.STRING) & (np.diff(columns.cut_offsets) == 1)
    first = columns.cut_offsets[:-1][whole]
    whole[whole] = (columns.cut_high[first] == empty) & (columns.cut_low[first] == 0)
    return whole


def _are_shared(columns: Columns) -> NDArray[np.bool_]:
    """For each condition whether another of its filter is about the same attribute."""
    of_condition = np.repeat(np.arange(columns.filters), np.diff(columns.offsets))
    pairs = of_condition << 32 | columns.attribute.astype(np.int64) & 0xFFFFFFFF
    _, which, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    shared: NDArray[np.bool_] = counts[which] > 1
    return shared


def _patterns_known(columns: Columns) -> NDArray[np.uint64]:
    """For each filter how many of its patterns are not UNKNOWN."""
    known = _sums(columns.pattern != UNKNOWN_PATTERN, columns.pattern_offsets)
    return _sums(known, columns.offsets)


def _sums(values: NDArray[np.generic], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The sum of each run, modulo 2**64."""
    total = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values.astype(np.uint64), out=total[1:])
    return total[offsets[1:]] - total[offsets[:-1]]


def _mixed(*fields: NDArray[np.generic]) -> NDArray[np.uint64]:
    """For each row of some numbers one number that depends on all of them."""
    mixed = np.zeros(1, np.uint64)
    for field in fields:
        mixed = (
            mixed ^ field.astype(np.int64 if field.dtype.kind == "i" else np.uint64).view(np.uint64)
        ) * _K1
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _K2
        mixed ^= mixed >> np.uint64(32)
    return mixed
