"""Placing: where in a table each filter is found.

A filter is found by its cheapest condition, its access. Where two conditions of many filters lie on the
same two attributes, a grid over both (a plane) finds far fewer candidates than either alone; a plane is
made where that saves more tests than looking into it costs.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import LimitError
from penstock.matching.columns import offsets_of
from penstock.matching.kernels import build_places, build_planes
from penstock.matching.kernels import places as layout
from penstock.matching.kernels.build_places import ABSENT, ALWAYS, LISTED, NOWHERE, PATTERNED, PLANED
from penstock.matching.kernels.places import DOWN, LEVEL, UP, Filters, Lists, Places
from penstock.matching.kernels.resolve import NUMBERS
from penstock.matching.kernels.words import TRUE_WORD, Draft

_LOOK: Final = 6.0
"""What looking into a plane costs, in tests of candidates."""

_SKIM: Final = 1.0
"""What it costs to see that the other attribute of a plane is absent."""

_CELLS_MAX: Final = 64
"""Cells of a plane that one filter may stand in."""

_BUCKETS_MIN: Final = 8


WORDS_MAX: Final = 2**31
"""Words (conditions, and pairs of values in lists) of one table: their places have 32 bits."""


class Chances(NamedTuple):
    """How likely conditions are to hold; see `kernels.build_words.chances`."""

    word: NDArray[np.float32]
    cumulative: NDArray[np.float64]
    cell_base: NDArray[np.int64]
    presence: NDArray[np.float64]


class _Planes(NamedTuple):
    """The planes, ordered by slot, and the pairs (cell, filter) that fill their grids."""

    slot: NDArray[np.int64]
    other: NDArray[np.int64]
    width: NDArray[np.int64]
    grid: NDArray[np.int64]
    bucket: NDArray[np.int64]
    other_bucket: NDArray[np.int64]
    buckets: NDArray[np.int32]
    cells: int
    cell: NDArray[np.int64]
    member: NDArray[np.int64]


def place_filters(
    filters: Draft,
    never: NDArray[np.bool_],
    ends: NDArray[np.int64],
    chances: Chances,
    pattern_count: int,
) -> tuple[Filters, Lists, Places, NDArray[np.int64]]:
    """The filters in the order of their places, the places, and for each filter where it stood before."""
    count, slots = len(filters.ids), len(ends)
    place = np.empty(count, np.uint8)
    access, second = np.empty(count, np.int64), np.empty(count, np.int64)
    cost, second_cost = np.empty(count, np.float32), np.empty(count, np.float32)
    build_places.choose(
        filters,
        never,
        chances.word,
        chances.cumulative,
        chances.cell_base,
        place,
        access,
        second,
        cost,
        second_cost,
    )
    slot, other = build_places.access_slots(filters, access), build_places.access_slots(filters, second)
    planes = _make_planes(filters, place, access, second, slot, other, cost, second_cost, ends, chances)
    list_slot, list_kind, list_level = (
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
    )
    skip, sole = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    key = np.zeros(count, np.int64)
    build_places.list_keys(filters, place, access, ends, list_slot, list_kind, list_level, skip, sole, key)
    major = np.zeros(count, np.int64)
    listed = place == LISTED
    # Lists of one slot together, those of sole conditions first; those whose place makes sure of the access
    # apart from those where it has to be tested.
    list_number = (((list_slot * 2 + ~sole) * 2 + ~skip) * 4 + list_kind) * 64 + list_level
    major[listed] = list_number[listed]
    absent = place == ABSENT
    major[absent] = slot[absent] * 2 + ~sole[absent]
    patterned = place == PATTERNED
    major[patterned] = _pattern_of(filters, access[patterned]) * 2 + ~sole[patterned]
    always = place == ALWAYS
    nothing_to_test = np.diff(filters.word_offsets) == 0
    major[always] = ~nothing_to_test[always]
    planed = place == PLANED
    # Filters that are found together stand together.
    first_cell = np.zeros(count, np.int64)
    first_cell[planes.member[::-1] >> 1] = planes.cell[::-1]
    major[planed] = first_cell[planed]
    order = np.lexsort((key, major, place))
    ids = np.empty(count, np.int32)
    record = np.empty((count + 1, 2), np.uint64)
    # Only what the place itself makes sure of need not be tested: it stands last.
    sure = (listed & skip) | absent | patterned
    shown = np.where(sure, access, -1)
    size = build_places.arrange(filters, order, shown, chances.word, ids, record, np.empty(0, np.uint64))
    if size > WORDS_MAX:
        raise LimitError(f"the filters have {size:,} words", "WORDS_MAX", WORDS_MAX)
    # One more, so that an empty array does not ask for counting only.
    words = np.zeros(size + 1, np.uint64)
    build_places.arrange(filters, order, shown, chances.word, ids, record, words)
    arranged = Filters(ids, record, words)
    starts = np.searchsorted(place[order], np.arange(NOWHERE, PLANED + 2))
    lists = _lists(order, starts[LISTED], starts[LISTED + 1], list_number, key, skip, slots, ends)
    everything = np.arange(count)
    probe = build_planes.probes(filters, everything, access, second, chances.word)
    left = build_planes.others(filters, everything, access, second)
    # Nothing is left to test where a cell meets the plane's conditions, and the probe is all the rest.
    settled = left == (probe != TRUE_WORD)
    places = _places(
        order, major, starts, nothing_to_test, planes, probe, settled, filters.ids, slots, pattern_count
    )
    return arranged, lists, places, order


def _pattern_of(filters: Draft, access: NDArray[np.int64]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (filters.words[access] & np.uint64((1 << 62) - 1)).astype(np.int64)
    return found


def _make_planes(
    filters: Draft,
    place: NDArray[np.uint8],
    access: NDArray[np.int64],
    second: NDArray[np.int64],
    slot: NDArray[np.int64],
    other: NDArray[np.int64],
    cost: NDArray[np.float32],
    second_cost: NDArray[np.float32],
    ends: NDArray[np.int64],
    chances: Chances,
) -> _Planes:
    """Decide on planes, move filters into them (in `place`), and number the cells."""
    slots = len(ends)
    low, high = np.minimum(slot, other), np.maximum(slot, other)
    eligible = np.flatnonzero(second >= 0)
    pair = low[eligible] * max(1, slots) + high[eligible]
    pairs, of_pair = np.unique(pair, return_inverse=True)
    saving = np.bincount(
        of_pair, cost[eligible] * (1.0 - np.minimum(1.0, 2.0 * second_cost[eligible])), len(pairs)
    )
    sizes = np.bincount(of_pair, minlength=len(pairs))
    first, last = pairs // max(1, slots), pairs % max(1, slots)
    presence = chances.presence
    worth = saving > presence[first] * (_SKIM + _LOOK * presence[last])
    chosen = eligible[worth[of_pair]]
    chosen_pair = (np.cumsum(worth) - 1)[of_pair[worth[of_pair]]]
    plane_slot, plane_other = first[worth], last[worth]
    buckets, starts, bucket_at, bucket_count = _buckets(
        filters, access, second, slot, other, chosen, sizes[worth], plane_slot, plane_other, ends, chances
    )
    width = bucket_count[plane_other] if len(plane_other) else np.empty(0, np.int64)
    grid_sizes = (bucket_count[plane_slot] * width if len(plane_slot) else width).astype(np.int64)
    grid = offsets_of(grid_sizes)
    cell, member, n = build_planes.plane_cells(
        filters,
        chosen,
        chosen_pair,
        access,
        second,
        bucket_at[plane_slot] if len(plane_slot) else np.empty(0, np.int64),
        bucket_at[plane_other] if len(plane_other) else np.empty(0, np.int64),
        plane_slot,
        width,
        grid[:-1].copy(),
        buckets,
        *_bounds(starts, buckets),
        _CELLS_MAX,
        np.empty(4 * len(chosen) + 16, np.int64),
        np.empty(4 * len(chosen) + 16, np.int64),
    )
    cell, member = cell[:n], member[:n]
    in_plane = np.zeros(len(place), np.bool_)
    in_plane[member >> 1] = True
    place[in_plane] = PLANED
    # What is left with a list of values stands under each of them: a plane over one slot.
    alone = np.flatnonzero((place == PLANED) & ~in_plane)
    single = np.unique(slot[alone])
    single_buckets, single_at, single_count = _value_buckets(
        filters, access, alone, single, ends, len(buckets)
    )
    single_grid = grid[-1] + offsets_of(single_count)
    cell_1, member_1, n_1 = build_planes.plane_cells(
        filters,
        alone,
        np.searchsorted(single, slot[alone]),
        access,
        second,
        single_at,
        np.full(len(single), -1, np.int64),
        single,
        np.ones(len(single), np.int64),
        single_grid[:-1].copy(),
        np.concatenate([buckets, single_buckets]),
        *_bounds(
            np.concatenate([starts, len(buckets) + offsets_of(ends[single, 2])[1:]]),
            np.concatenate([buckets, single_buckets]),
        ),
        _CELLS_MAX,
        np.empty(4 * len(alone) + 16, np.int64),
        np.empty(4 * len(alone) + 16, np.int64),
    )
    second[alone] = -1
    order = np.argsort(np.concatenate([plane_slot, single]), kind="stable")

    def both(pairs_part: NDArray[np.int64], single_part: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.concatenate([pairs_part, single_part])[order]

    nothing = np.full(len(single), -1, np.int64)
    return _Planes(
        slot=both(plane_slot, single),
        other=both(plane_other, nothing),
        width=both(width, np.ones(len(single), np.int64)),
        grid=both(grid[:-1], single_grid[:-1]),
        bucket=both(bucket_at[plane_slot] if len(plane_slot) else plane_slot, single_at),
        other_bucket=both(bucket_at[plane_other] if len(plane_other) else plane_other, nothing),
        buckets=np.concatenate([buckets, single_buckets]),
        cells=int(single_grid[-1]),
        cell=np.concatenate([cell, cell_1[:n_1]]),
        member=np.concatenate([member, member_1[:n_1]]),
    )


def _buckets(
    filters: Draft,
    access: NDArray[np.int64],
    second: NDArray[np.int64],
    slot: NDArray[np.int64],
    other: NDArray[np.int64],
    chosen: NDArray[np.int64],
    sizes: NDArray[np.int64],
    plane_slot: NDArray[np.int64],
    plane_other: NDArray[np.int64],
    ends: NDArray[np.int64],
    chances: Chances,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The codes of each slot of a plane in buckets: where each slot's start, those of every slot (or -1), and
    how many buckets each slot has.

    As many buckets as make a usual condition touch one or two, and as the filters of a plane can fill.
    """
    slots = len(ends)
    used = np.unique(np.concatenate([plane_slot, plane_other])).astype(np.int64)
    bucket_at, bucket_count = np.full(slots, -1, np.int64), np.zeros(slots, np.int64)
    if not len(used):
        return np.empty(0, np.int32), np.zeros(1, np.int64), bucket_at, bucket_count
    words = np.concatenate([access[chosen], second[chosen]])
    of_slot = np.concatenate([slot[chosen], other[chosen]])
    marks = np.zeros(int(chances.cell_base[-1]) + 1, np.bool_)
    build_planes.mark_lows(filters, words, chances.cell_base, marks)
    width = np.bincount(of_slot, build_planes.widths(filters, words, chances.word), slots) / np.maximum(
        1, np.bincount(of_slot, minlength=slots)
    )
    filled = np.bincount(plane_slot, sizes, slots) + np.bincount(plane_other, sizes, slots)
    planes = np.bincount(plane_slot, minlength=slots) + np.bincount(plane_other, minlength=slots)
    points = np.ones(slots, np.bool_)
    points[of_slot[~build_planes.are_points(filters, words)]] = False
    lengths = ends[used, 2]
    starts = offsets_of(lengths)
    buckets = np.empty(int(starts[-1]), np.int32)
    for at, s in enumerate(used.tolist()):
        base, end = int(chances.cell_base[s]), int(ends[s, 2])
        share = float(chances.presence[s])
        wanted = 1.5 * share / max(1e-9, float(width[s]))
        fill = np.sqrt(16.0 * filled[s] / max(1, planes[s]))
        wanted = int(max(_BUCKETS_MIN, min(wanted, fill)))
        boundary = marks[base : base + end]
        if points[s] and int(boundary.sum()) <= 2 * wanted:
            # A bucket for each value; those that no filter of a plane asks for share the first.
            part = np.where(boundary, np.cumsum(boundary), 0).astype(np.int32)
            bucket_count[s] = int(boundary.sum()) + 1
        else:
            part = _equally_likely(boundary, chances.cumulative[base : base + end], share, wanted)
            bucket_count[s] = int(part[-1]) + 1
        bucket_at[s] = starts[at]
        buckets[starts[at] : starts[at + 1]] = part
    return buckets, starts, bucket_at, bucket_count


def _equally_likely(
    boundary: NDArray[np.bool_], weight: NDArray[np.float64], share: float, wanted: int
) -> NDArray[np.int32]:
    """Buckets that start where some condition does, not many more than wanted, and about equally likely."""
    if int(boundary.sum()) + 1 > wanted:
        step = np.floor((weight - weight[1]) / max(1e-12, share) * wanted)
        places = np.flatnonzero(boundary)
        fresh = np.ones(len(places), np.bool_)
        fresh[1:] = step[places[1:]] != step[places[:-1]]
        boundary = np.zeros(len(boundary), np.bool_)
        boundary[places[fresh]] = True
    starts = boundary.astype(np.int32)
    starts[0] = 0
    return np.cumsum(starts, dtype=np.int32)


def _bounds(
    starts: NDArray[np.int64], buckets: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    first, last = np.empty(len(buckets), np.int64), np.empty(len(buckets), np.int64)
    build_planes.bucket_bounds(starts, buckets, first, last)
    return first, last


def _value_buckets(
    filters: Draft,
    access: NDArray[np.int64],
    alone: NDArray[np.int64],
    single: NDArray[np.int64],
    ends: NDArray[np.int64],
    first: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """For each slot with lists of values a bucket for each value, and bucket 0 for all others."""
    starts = offsets_of(ends[single, 2])
    base = np.full(len(ends) + 1, -1, np.int64)
    base[single] = starts[:-1]
    marks = np.zeros(int(starts[-1]) + 1, np.bool_)
    build_planes.mark_values(filters, access[alone], base, marks)
    buckets = np.zeros(int(starts[-1]), np.int32)
    counts = np.empty(len(single), np.int64)
    for at in range(len(single)):
        part = marks[starts[at] : starts[at + 1]]
        numbered = np.cumsum(part)
        buckets[starts[at] : starts[at + 1]] = np.where(part, numbered, 0)
        counts[at] = numbered[-1] + 1
    return buckets, starts[:-1] + first, counts


def _lists(
    order: NDArray[np.int64],
    first: int,
    last: int,
    list_number: NDArray[np.int64],
    key: NDArray[np.int64],
    skip: NDArray[np.bool_],
    slots: int,
    ends: NDArray[np.int64],
) -> Lists:
    """The lists, from the filters that have been sorted into them."""
    listed = order[first:last]
    numbers = list_number[listed]
    keys = key[listed].astype(np.int32)
    begins = (
        np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]]) if len(numbers) else np.empty(0, np.int64)
    )
    sizes = np.diff(np.r_[begins, len(numbers)]).astype(np.int32)
    number = numbers[begins]
    level = number % 64
    kind = number // 64 % 4
    sole = number // 512 % 2 == 0
    slot = number // 1024
    least = keys[begins] if len(begins) else np.empty(0, np.int32)
    greatest = keys[begins + sizes - 1] if len(begins) else np.empty(0, np.int32)
    width = np.where(kind == LEVEL, 1 << level, 0)
    family_end = np.zeros(len(begins), np.int64)
    family_begin = np.zeros(len(begins), np.int64)
    for at, column in ((1, 0), (2, 1), (3, 2), (4, 2)):
        family_end = np.where(level == at, ends[slot, column], family_end)
    for at in (1, 2, 3):
        start = ends[slot, at - 2] if at > 1 else NUMBERS
        family_begin = np.where(level == at, start, family_begin)
    low = np.where(kind == DOWN, family_begin + 1, least)
    high = np.where(kind == LEVEL, greatest + width, np.where(kind == UP, family_end, greatest))
    dense = (high - low) <= 2 * sizes.astype(np.int64) + 16
    extents = np.where(dense, high - low + 1, 0)
    at_dense = offsets_of(extents)
    positions = np.empty(int(at_dense[-1]), np.int32)
    for i in np.flatnonzero(dense):
        build_places.dense_positions(keys, begins[i], sizes[i], low[i], high[i], positions, at_dense[i])
    searched = np.where(dense, 0, sizes).astype(np.int64)
    at_keys = offsets_of(searched)
    kept = np.repeat(~dense, sizes) if len(sizes) else np.empty(0, np.bool_)
    by_slot = np.searchsorted(slot, np.arange(slots + 1))
    sole_lists = np.bincount(slot[sole], minlength=slots) if len(slot) else np.zeros(slots, np.int64)
    record = np.empty((len(begins), 9), np.int32)
    record[:, layout.KIND] = kind
    record[:, layout.LOW], record[:, layout.HIGH] = low, high
    record[:, layout.WIDTH] = width
    record[:, layout.SKIP] = skip[listed][begins]
    record[:, layout.FIRST], record[:, layout.SIZE] = first + begins, sizes
    record[:, layout.DENSE] = np.where(dense, at_dense[:-1], -1)
    record[:, layout.KEYS] = at_keys[:-1]
    return Lists(
        slot_first=by_slot[:-1].astype(np.int32),
        slot_split=(by_slot[:-1] + sole_lists).astype(np.int32),
        slot_last=by_slot[1:].astype(np.int32),
        slot_times=ends[:, 0].astype(np.int32),
        slot_strings=ends[:, 1].astype(np.int32),
        record=record,
        positions=positions,
        keys=keys[kept],
    )


def _places(
    order: NDArray[np.int64],
    major: NDArray[np.int64],
    starts: NDArray[np.int64],
    nothing_to_test: NDArray[np.bool_],
    planes: _Planes,
    probe: NDArray[np.uint64],
    settled: NDArray[np.bool_],
    ids: NDArray[np.int32],
    slots: int,
    pattern_count: int,
) -> Places:
    """The places that are no lists."""
    absent = major[order[starts[ABSENT] : starts[ABSENT + 1]]]
    absent_slots = np.unique(absent // 2)
    patterned = major[order[starts[PATTERNED] : starts[PATTERNED + 1]]]
    numbers = np.arange(pattern_count + 1)
    always = order[starts[ALWAYS] : starts[ALWAYS + 1]]
    sole_always = int(nothing_to_test[always].sum())
    position = np.empty(len(order), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    by_cell = np.argsort(planes.cell, kind="stable")
    grid = np.zeros(planes.cells + 1, np.int64)
    np.cumsum(np.bincount(planes.cell, minlength=planes.cells), out=grid[1:])
    return Places(
        absent_slot=absent_slots.astype(np.int32),
        absent_first=(starts[ABSENT] + np.searchsorted(absent, 2 * absent_slots)).astype(np.int32),
        absent_split=(starts[ABSENT] + np.searchsorted(absent, 2 * absent_slots + 1)).astype(np.int32),
        absent_last=(starts[ABSENT] + np.searchsorted(absent, 2 * absent_slots + 2)).astype(np.int32),
        pattern_first=(starts[PATTERNED] + np.searchsorted(patterned, 2 * numbers)).astype(np.int32),
        pattern_split=(starts[PATTERNED] + np.searchsorted(patterned, 2 * numbers[:-1] + 1)).astype(np.int32),
        always=np.array([starts[ALWAYS], starts[ALWAYS] + sole_always, starts[ALWAYS + 1]], np.int32),
        slot_planes=np.searchsorted(planes.slot, np.arange(slots + 1)).astype(np.int32),
        plane_record=np.stack(
            [planes.other, planes.width, planes.grid, planes.bucket, planes.other_bucket], axis=1
        ).astype(np.int32),
        buckets=planes.buckets,
        grid=grid.astype(np.int32),
        occupied=_bits(np.diff(grid) > 0),
        members=_members(position, probe, settled, ids, planes.member[by_cell]),
    )


def _bits(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Flags, 64 to a word, the first in the lowest bit."""
    padded = np.zeros(-(-max(1, len(flags)) // 64) * 64, np.bool_)
    padded[: len(flags)] = flags
    found: NDArray[np.uint64] = np.packbits(padded, bitorder="little").view("<u8").astype(np.uint64)
    return found


def _members(
    position: NDArray[np.int32],
    probe: NDArray[np.uint64],
    settled: NDArray[np.bool_],
    ids: NDArray[np.int32],
    member: NDArray[np.int64],
) -> NDArray[np.uint64]:
    """The members of cells, from twice the numbers of filters, and one more where the cell is exact."""
    which = member >> 1
    done = (member & 1 == 1) & settled[which]
    # One more, so that there is always something to fetch.
    made = np.zeros((len(member) + 1, 2), np.uint64)
    made[:-1, 0] = probe[which]
    made[:-1, 1] = (
        ids[which].astype(np.uint64)
        | (position[which].astype(np.uint64) << np.uint64(32))
        | (done.astype(np.uint64) << np.uint64(63))
    )
    return made
