"""Rows in bulk as filters of the algebra: one condition for each attribute, or the one that nothing meets.

A table may have several rows on one attribute of a filter, as `x > 5` and `x < 9`. Left as they are they
would match what they should, but the filter would not be that of the text `x > 5 and x < 9`: neither when it
is read back, nor to be removed; and where rows contradict each other, nothing would say so. Sets without
patterns are intersected here, all at once; those with patterns by the algebra, each different combination
once.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import LimitError
from penstock.filters.filter import NEVER as NEVER_FILTER
from penstock.filters.filter import box, check_patterns
from penstock.filters.valuesets import NOTHING, Presence, ValueSet, intersection_of
from penstock.matching.columns import (
    NEVER,
    Columns,
    ColumnsBuilder,
    concatenate,
    literals_in_order,
    offsets_of,
    runs,
    take,
)
from penstock.matching.reading import value_set
from penstock.model.limits import CONSTRAINTS_MAX
from penstock.model.values import Family

_ABOVE: Final = 255
"""More than any kind of condition."""


class Conditions(NamedTuple):
    """Conditions of filters, in the order of the filters."""

    columns: Columns
    """Each as a filter of its own."""
    filter_of: NDArray[np.int64]
    template: NDArray[np.int64]
    """Those with equal numbers are equal but for the attribute."""
    row: NDArray[np.int64]
    """Where each comes from, for errors."""


class _Groups(NamedTuple):
    """Conditions of one filter on one attribute, where there are several."""

    members: NDArray[np.int64]
    """The conditions, those of a group one after another."""
    starts: NDArray[np.int64]
    """Where each group starts among the members; none is empty."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many conditions each has."""
        return np.diff(self.starts, append=len(self.members))

    def some(self, chosen: NDArray[np.bool_]) -> "_Groups":
        """Some of the groups."""
        return _Groups(self.members[np.repeat(chosen, self.sizes)], offsets_of(self.sizes[chosen])[:-1])


def conjunctions(given: Conditions, filters: int) -> Columns:
    """So many filters, as the algebra has them."""
    columns, filter_of = given.columns, given.filter_of
    groups = _groups(filter_of * max(1, len(columns.names)) + columns.attribute)
    if len(groups.starts):
        columns, filter_of = _one_each(given, groups)
    _check_sizes(given, filter_of, filters)
    never = np.flatnonzero(columns.kind == NEVER)
    keep = np.ones(len(filter_of), np.bool_)
    if len(never):
        # It is a filter's only condition then.
        dead, first = np.unique(filter_of[never], return_index=True)
        keep[np.isin(filter_of, dead)] = False
        keep[never[first]] = True
    if len(groups.starts) or len(never):
        kept = np.flatnonzero(keep)
        kept = kept[np.argsort(filter_of[kept], kind="stable")]
        columns, filter_of = take(columns, kept), filter_of[kept]
    return columns._replace(
        ids=np.zeros(filters, np.int32), offsets=offsets_of(np.bincount(filter_of, minlength=filters))
    )


def with_exact(
    made: Columns, given: Conditions, exact: dict[int, ValueSet], names: dict[str, int]
) -> Columns:
    """The filters, in which those with a condition of some templates are made by the algebra.

    These are conditions that columns cannot hold: see `penstock.matching.exact_cuts`.
    """
    concerned = np.unique(given.filter_of[np.isin(given.template, list(exact))])
    rows = np.flatnonzero(np.isin(given.filter_of, concerned))
    sets: dict[int, dict[str, list[ValueSet]]] = {}
    for row, number in zip(rows.tolist(), given.filter_of[rows].tolist(), strict=True):
        states = exact.get(int(given.template[row]))
        name = given.columns.names[given.columns.attribute[row]]
        known = sets.setdefault(number, {}).setdefault(name, [])
        if states is None:
            is_never = given.columns.kind[row] == NEVER
            states = NOTHING if is_never else value_set(given.columns, row)
        known.append(states)
    builder = ColumnsBuilder(names)
    for by_name in sets.values():
        conditions = {name: intersection_of(several) for name, several in by_name.items()}
        is_empty = any(states.is_empty for states in conditions.values())
        builder.add(0, NEVER_FILTER if is_empty else box(conditions))
    apart = builder.build()
    kept = np.setdiff1d(np.arange(made.filters), concerned)
    whole = concatenate([take(made, kept), apart], list(names))
    return take(whole, np.argsort(np.concatenate([kept, concerned]), kind="stable"))


def _groups(key: NDArray[np.int64]) -> _Groups:
    """Those with equal keys, if there are several."""
    ordered = np.sort(key)
    if not (ordered[1:] == ordered[:-1]).any():
        return _Groups(np.zeros(0, np.int64), np.zeros(0, np.int64))
    members = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[members], prepend=-1))
    every = _Groups(members, starts)
    return every.some(every.sizes > 1)


def _one_each(given: Conditions, groups: _Groups) -> tuple[Columns, NDArray[np.int64]]:
    """One condition instead of each group, behind those that are alone; and the filters of all."""
    columns = given.columns
    alone = np.ones(len(given.filter_of), np.bool_)
    alone[groups.members] = False
    single = np.flatnonzero(alone)
    patterns = np.diff(columns.pattern_offsets)[groups.members]
    by_algebra = np.add.reduceat(patterns, groups.starts) > 0
    # What is empty by itself needs no looking at.
    by_algebra &= ~np.logical_or.reduceat(columns.kind[groups.members] == NEVER, groups.starts)
    plain, other = groups.some(~by_algebra), groups.some(by_algebra)
    parts = [take(columns, single), _intersected(columns, plain), _by_algebra(given, other)]
    first = [some.members[some.starts] for some in (plain, other)]
    of_part = [given.filter_of[which] for which in (single, *first)]
    return concatenate(parts, columns.names), np.concatenate(of_part)


def _check_sizes(given: Conditions, filter_of: NDArray[np.int64], filters: int) -> None:
    """Raise when a filter constrains too many attributes, as for one that is added by itself."""
    counts = np.bincount(filter_of, minlength=filters)
    if counts.max(initial=0) > CONSTRAINTS_MAX:
        which = int(np.argmax(counts > CONSTRAINTS_MAX))
        what = f"a filter constrains {counts[which]:,} attributes"
        row = int(given.row[np.argmax(given.filter_of == which)])
        raise LimitError(what, "CONSTRAINTS_MAX", CONSTRAINTS_MAX).in_row(row)


def _by_algebra(given: Conditions, groups: _Groups) -> Columns:
    """A condition for each group, of which some members have patterns."""
    columns = given.columns
    builder = ColumnsBuilder({})
    known: dict[tuple[int, ...], int] = {}
    which = np.empty(len(groups.starts), np.int64)
    for at, members in enumerate(np.split(groups.members, groups.starts[1:]) if len(which) else ()):
        combination = tuple(np.unique(given.template[members]).tolist())
        if combination not in known:
            known[combination] = len(known)
            sets = [value_set(columns, c) for c in members.tolist()]
            try:
                check_patterns(columns.names[columns.attribute[members[0]]], sets)
            except LimitError as error:
                raise error.in_row(int(given.row[members[0]])) from None
            both = intersection_of(sets)
            builder.add(0, NEVER_FILTER if both.is_empty else box({"x": both}))
        which[at] = known[combination]
    attribute = columns.attribute[groups.members[groups.starts]]
    return take(builder.build(), which)._replace(attribute=attribute)


def _intersected(columns: Columns, groups: _Groups) -> Columns:
    """A condition for each group, of which no member has patterns; as `intersection_of` makes it."""
    count = len(groups.starts)
    of_member = np.repeat(np.arange(count), groups.sizes)
    kind = columns.kind[groups.members]
    # What exists may be of any kind but absent, so it is one with any other.
    counted = kind != Presence.EXISTS
    least, most = np.full(count, _ABOVE, np.uint8), np.zeros(count, np.uint8)
    np.minimum.at(least, of_member[counted], kind[counted])
    np.maximum.at(most, of_member[counted], kind[counted])
    needed = np.bincount(of_member[counted], minlength=count)
    empty = (needed > 0) & (least != most)
    empty |= (least == Presence.ABSENT) & (needed < groups.sizes)
    made = np.where(needed > 0, least, Presence.EXISTS).astype(np.uint8)
    has_cuts = (made >= Family.BOOL) & (made <= Family.STRING) & ~empty
    swept = has_cuts[of_member] & counted
    cuts, of_cut = _sweep(columns, groups.members[swept], of_member[swept], needed)
    cut_counts = np.bincount(of_cut, minlength=count)
    empty |= has_cuts & (cut_counts == 0)
    return columns._replace(
        ids=np.zeros(count, np.int32),
        offsets=np.arange(count + 1, dtype=np.int64),
        attribute=columns.attribute[groups.members[groups.starts]],
        kind=np.where(empty, NEVER, made).astype(np.uint8),
        cut_offsets=offsets_of(cut_counts),
        cut_high=columns.cut_high[cuts],
        cut_low=columns.cut_low[cuts],
        pattern_offsets=np.zeros(count + 1, np.int64),
        pattern=np.zeros(0, np.int32),
    )


def _sweep(
    columns: Columns, members: NDArray[np.int64], of_member: NDArray[np.int64], needed: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cuts, and the group of each, at which one comes into all of a group's sets, or out of one again."""
    offsets, cut = runs(columns.cut_offsets, members)
    counts = np.diff(offsets)
    group = np.repeat(of_member, counts)
    step = 1 - 2 * ((np.arange(len(cut)) - np.repeat(offsets[:-1], counts)) % 2)
    strings = np.repeat(columns.kind[members] == Family.STRING, counts)
    high, low = columns.cut_high[cut], columns.cut_low[cut]
    _, rank = literals_in_order(columns.literals, high[strings])
    high[strings] = rank[high[strings]]
    order = np.lexsort((low, high, group))
    cut, group, high, low, step = cut[order], group[order], high[order], low[order], step[order]
    # Of equal cuts the last one tells in how many sets one is from there on.
    last = np.ones(len(cut), np.bool_)
    last[:-1] = (group[1:] != group[:-1]) | (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    depth = np.cumsum(step)
    first = np.searchsorted(group, group)
    depth -= (depth - step)[first]
    cut, group, inside = cut[last], group[last], (depth == needed[group])[last]
    before = np.zeros(len(cut), np.bool_)
    before[1:] = inside[:-1] & (group[1:] == group[:-1])
    toggles = inside != before
    return cut[toggles], group[toggles]
