"""The kernel that matches: codes in, ids out.

Each filter stands in one place, where its cheapest condition (its access) finds it; the filters found
there are candidates, and their other conditions are tested straight against the event's codes. The places:

lists    filters whose access is a range of codes of one slot. Lists of one width hold ranges of at most
         that many codes, sorted by where they begin, so that those which may contain a code are neighbours;
         `UP` and `DOWN` hold ranges without an end on one side, and those that contain a code are exactly
         a beginning, or an end, of the list.
absent   filters whose access asks that a slot be absent
patterns filters whose access is a pattern
planes   filters with two selective conditions, in the cells of a grid over two slots; or with a list of
         values, under each of them
always   filters that every event has to be tested with
"""

from typing import NamedTuple

import numpy as np

from penstock.matching.batch import NO_EVENT, Batch
from penstock.matching.kernels.jit import inlined, kernel, leaf, outlined
from penstock.matching.kernels.resolve import NUMBERS
from penstock.matching.kernels.search import Array, is_gone
from penstock.matching.kernels.words import (
    CODE_MASK,
    CODE_SHIFT,
    HALF,
    KIND_SHIFT,
    LOW_HALF,
    PATTERN,
    RANGE,
    REST_MASK,
    SET,
    SLOT_MASK,
    SLOT_SHIFT,
)

LEVEL = 0
UP = 1
DOWN = 2
"""The kinds of list."""

_POSITION = np.uint64(0x7FFFFFFF00000000)
_DONE = np.uint64(1 << 63)

_AHEAD = 16
"""For so many events what they find in planes is fetched at once, where it is too much for caches."""

_LARGE = 1 << 20
"""Members of planes that are too many for caches."""

_FEW_IDS = 1024
_FEW = 8
"""Sets of so few toggles are searched one by one."""


class Filters(NamedTuple):
    """All filters, in the order of their places.

    A filter's record is its head, the condition that is tested first and most often decides, and beside it
    where its words start and its id (again): what a candidate needs lies together. The words are the other
    conditions; what the filter's place makes sure of stands last (and is the head if there is no other). A
    set is followed by its toggles, two to a word; those of a head that is a set come first of all.
    """

    ids: Array
    record: Array
    words: Array


class Lists(NamedTuple):
    """The lists of each slot, those of sole conditions first (from `slot_first` to `slot_split`)."""

    slot_first: Array
    slot_split: Array
    slot_last: Array
    slot_times: Array
    slot_strings: Array
    """For each slot the codes at which its times and its strings start."""
    record: Array
    """For each list what the constants below name: one line of the processor's cache."""
    positions: Array
    keys: Array


KIND, LOW, HIGH, WIDTH, SKIP, FIRST, SIZE, DENSE, KEYS = range(9)
"""A list's kind; the codes that concern it; the width of its ranges; whether its place makes sure of the
access; its first filter, and how many there are; where its positions by code start, or -1; where its
sorted keys start, which are searched then."""


class Places(NamedTuple):
    """The other places. `…_first`, `…_split`, `…_last`: filters without and with further conditions."""

    absent_slot: Array
    absent_first: Array
    absent_split: Array
    absent_last: Array
    pattern_first: Array
    pattern_split: Array
    always: Array
    slot_planes: Array
    plane_record: Array
    """For each plane what the constants below name."""
    buckets: Array
    grid: Array
    occupied: Array
    """A bit for each cell of the grid: whether it has members."""
    members: Array
    """The filters in each cell of the grid: a range that the filter has besides those of the plane, or
    TRUE_WORD; and the id, the position, and a bit that is set where nothing else has to be tested."""


OTHER, PLANE_WIDTH, GRID, BUCKET, OTHER_BUCKET = range(5)
"""A plane's other slot, or -1; how many buckets that has; where the plane's cells start in `grid`; where the
buckets of the two slots' codes start."""


class Scratch(NamedTuple):
    """What a thread works with; all zero between events, but for the stamps."""

    code: Array
    present: Array
    bits: Array
    stamp: Array


@inlined
def _is_other(c: int, greater: int, lesser: int, times: int, strings: int) -> bool:
    """Whether a code is another of the same family than two."""
    if c == greater or c == lesser or c < NUMBERS:
        return False
    if greater < times:
        return c < times
    if greater < strings:
        return c >= times and c < strings
    return c >= strings


@leaf
def _fetch_planes(
    first_event: int,
    event_start: Array,
    event_count: Array,
    entries: Array,
    value_attribute: Array,
    slot_of: Array,
    codes: Array,
    slot_planes: Array,
    plane_record: Array,
    buckets: Array,
    grid: Array,
    occupied: Array,
    members: Array,
    code: Array,
    cells: Array,
) -> int:
    """Touch what the next few events will find in planes, so that they need not wait for it one by one.

    Returns a number that means nothing. `code` is all zero before and after.
    """
    touched = np.int64(0)
    found = 0
    for event in range(first_event, min(first_event + _AHEAD, len(event_start))):
        first = event_start[event]
        last = first + event_count[event]
        for e in range(first, last):
            if codes[entries[e]] > 0:
                code[slot_of[value_attribute[entries[e]]]] = codes[entries[e]]
        for e in range(first, last):
            c = codes[entries[e]]
            if c <= 0:
                continue
            slot = slot_of[value_attribute[entries[e]]]
            for plane in range(slot_planes[slot], slot_planes[slot + 1]):
                other = plane_record[plane, OTHER]
                bucket = np.int64(buckets[plane_record[plane, BUCKET] + c])
                if other >= 0:
                    if code[other] == 0:
                        continue
                    bucket = (
                        bucket * plane_record[plane, PLANE_WIDTH]
                        + buckets[plane_record[plane, OTHER_BUCKET] + code[other]]
                    )
                cell = plane_record[plane, GRID] + bucket
                if found + 1 >= len(cells):
                    break
                # Written in any case, and written over: no branch to guess.
                cells[found] = cell
                found += np.int64((occupied[cell >> 6] >> np.uint64(cell & 63)) & np.uint64(1))
        for e in range(first, last):
            if codes[entries[e]] > 0:
                code[slot_of[value_attribute[entries[e]]]] = 0
    for i in range(found):
        touched += grid[cells[i]]
    for i in range(found):
        touched += np.int64(members[grid[cells[i]], 0])
    return touched


@outlined
def _match_events(
    first_event: int,
    n: int,
    event_start: Array,
    event_count: Array,
    entries: Array,
    value_attribute: Array,
    slot_of: Array,
    codes: Array,
    pattern_offsets: Array,
    pattern_numbers: Array,
    ids: Array,
    filter_record: Array,
    words: Array,
    slot_first: Array,
    slot_split: Array,
    slot_last: Array,
    slot_times: Array,
    slot_strings: Array,
    record: Array,
    positions: Array,
    keys: Array,
    absent_slot: Array,
    absent_first: Array,
    absent_split: Array,
    absent_last: Array,
    pattern_first: Array,
    pattern_split: Array,
    always: Array,
    slot_planes: Array,
    plane_record: Array,
    buckets: Array,
    grid: Array,
    occupied: Array,
    members: Array,
    distinct: bool,
    all_ids: int,
    gone: Array,
    code: Array,
    present: Array,
    bits: Array,
    stamp: Array,
    epoch: int,
    visits: Array,
    more_offsets: Array,
    more_ids: Array,
    offsets: Array,
    out: Array,
    sure: Array,
    unsure: Array,
    cells: Array,
) -> tuple[int, int, int, int, int, int]:
    """Match events until all are done, or there is not enough room for what one may find.

    Returned are the event that comes next, how many ids there are, the last epoch, a number that means
    nothing (it makes the processor fetch what will be needed), and how much room is needed for runs and for
    ids, 0 where there is enough.

    Nothing is allocated here, and no array is given another name: Numba then counts no references.

    Tables are larger than caches, and waiting for memory is most of the work. So the runs of filters that
    concern an event are noted first, touching each: the processor fetches many at a time. Then the runs
    that have nothing left to test are taken, and at last the others are tested.
    """
    touched = np.int64(0)
    # Where few ids have many filters, most events are done with after a slot or two: what is sure is taken
    # at once then.
    eager = not distinct and all_ids <= _FEW_IDS
    final = len(ids) - 1
    final_member = len(members) - 1
    for event in range(first_event, len(event_start)):
        if len(cells) > 0 and (event - first_event) % _AHEAD == 0:
            touched += _fetch_planes(
                event,
                event_start,
                event_count,
                entries,
                value_attribute,
                slot_of,
                codes,
                slot_planes,
                plane_record,
                buckets,
                grid,
                occupied,
                members,
                code,
                cells,
            )
        if event_count[event] == NO_EVENT:
            offsets[event + 1] = n
            continue
        epoch += 1
        begin = n
        slots = 0
        entries_first = event_start[event]
        entries_last = entries_first + event_count[event]
        for e in range(entries_first, entries_last):
            v = entries[e]
            c = codes[v]
            if c > 0:
                slot = slot_of[value_attribute[v]]
                code[slot] = c
                present[slots] = slot
                slots += 1

        needed = len(absent_slot) + 2
        for s in range(slots):
            slot = present[s]
            needed += slot_last[slot] - slot_first[slot] + slot_planes[slot + 1] - slot_planes[slot]
        if len(pattern_offsets) > 0:
            for e in range(entries_first, entries_last):
                needed += pattern_offsets[entries[e] + 1] - pattern_offsets[entries[e]]
        if needed > len(sure):
            for s in range(slots):
                code[present[s]] = 0
            return event, n, epoch, touched, needed, 0

        others = 0
        if len(more_offsets) > 0:
            others = more_offsets[event + 1] - more_offsets[event]
        if eager and n + all_ids + others > len(out):
            for s in range(slots):
                code[present[s]] = 0
            return event, n, epoch, touched, 0, n + all_ids + others

        sure_runs = 0
        unsure_runs = 0
        for s in range(slots):
            slot = present[s]
            c = code[slot]
            lists_first = slot_first[slot]
            lists_split = slot_split[slot]
            lists_last = slot_last[slot]
            planes_first = slot_planes[slot]
            planes_last = slot_planes[slot + 1]
            # No branch here waits for what is looked up: a guess that fails would stop the fetching. An empty
            # run is written, and written over.
            for at in range(lists_first, lists_last):
                low = record[at, LOW]
                high = record[at, HIGH]
                if c < low or c >= high:
                    continue
                first = record[at, FIRST]
                size = record[at, SIZE]
                dense = record[at, DENSE]
                kind = record[at, KIND]
                # How many keys are below c + 1, and for ranges of some width, below c + 1 - width.
                if dense >= 0:
                    upper = positions[dense + min(max(c + 1, low), high) - low]
                    lower = upper
                    if kind == LEVEL:
                        lower = positions[dense + min(max(c + 1 - record[at, WIDTH], low), high) - low]
                else:
                    base = record[at, KEYS]
                    length = size
                    while length > 0:
                        half = length >> 1
                        if keys[base + half] <= c:
                            base += half + 1
                            length -= half + 1
                        else:
                            length = half
                    upper = base - record[at, KEYS]
                    lower = upper
                    if kind == LEVEL:
                        wanted = c - record[at, WIDTH]
                        base = record[at, KEYS]
                        length = upper
                        while length > 0:
                            half = length >> 1
                            if keys[base + half] <= wanted:
                                base += half + 1
                                length -= half + 1
                            else:
                                length = half
                        lower = base - record[at, KEYS]
                last = first + upper
                if kind == DOWN:
                    first, last = last, first + size
                elif kind == LEVEL:
                    first += lower
                if at < lists_split:
                    touched += ids[min(first, final)]
                    sure[sure_runs, 0] = first
                    sure[sure_runs, 1] = last
                    sure_runs += first < last
                else:
                    touched += np.int64(filter_record[min(first, final), 1])
                    unsure[unsure_runs, 0] = first
                    unsure[unsure_runs, 1] = last
                    unsure[unsure_runs, 2] = record[at, SKIP]
                    unsure_runs += first < last
            if eager:
                for r in range(sure_runs):
                    for f in range(sure[r, 0], sure[r, 1]):
                        if stamp[ids[f]] == epoch or (len(gone) > 0 and is_gone(gone, f)):
                            continue
                        stamp[ids[f]] = epoch
                        out[n] = ids[f]
                        n += 1
                        if n - begin == all_ids:
                            break
                    if n - begin == all_ids:
                        break
                sure_runs = 0
                if n - begin == all_ids:
                    unsure_runs = 0
                    break
            for plane in range(planes_first, planes_last):
                other = plane_record[plane, OTHER]
                bucket = np.int64(buckets[plane_record[plane, BUCKET] + c])
                if other >= 0:
                    c_other = code[other]
                    if c_other == 0:
                        continue
                    bucket = (
                        bucket * plane_record[plane, PLANE_WIDTH]
                        + buckets[plane_record[plane, OTHER_BUCKET] + c_other]
                    )
                cell = plane_record[plane, GRID] + bucket
                # Most cells are empty, and a bit says so.
                if (occupied[cell >> 6] >> np.uint64(cell & 63)) & np.uint64(1) == 0:
                    continue
                first = grid[cell]
                last = grid[cell + 1]
                touched += np.int64(members[min(first, final_member), 0])
                unsure[unsure_runs, 0] = first
                unsure[unsure_runs, 1] = last
                unsure[unsure_runs, 2] = -1
                unsure_runs += first < last
        if not eager or n - begin < all_ids:
            if always[0] < always[1]:
                sure[sure_runs, 0] = always[0]
                sure[sure_runs, 1] = always[1]
                sure_runs += 1
            if always[1] < always[2]:
                unsure[unsure_runs, 0] = always[1]
                unsure[unsure_runs, 1] = always[2]
                unsure[unsure_runs, 2] = 0
                unsure_runs += 1
            for a in range(len(absent_slot)):
                if code[absent_slot[a]] == 0:
                    if absent_first[a] < absent_split[a]:
                        sure[sure_runs, 0] = absent_first[a]
                        sure[sure_runs, 1] = absent_split[a]
                        sure_runs += 1
                    if absent_split[a] < absent_last[a]:
                        unsure[unsure_runs, 0] = absent_split[a]
                        unsure[unsure_runs, 1] = absent_last[a]
                        unsure[unsure_runs, 2] = 1
                        unsure_runs += 1
            if len(pattern_offsets) > 0:
                for e in range(entries_first, entries_last):
                    v = entries[e]
                    matched_first = pattern_offsets[v]
                    matched_last = pattern_offsets[v + 1]
                    for at in range(matched_first, matched_last):
                        p = pattern_numbers[at]
                        bits[p] = 1
                        first = pattern_first[p]
                        split = pattern_split[p]
                        last = pattern_first[p + 1]
                        if first < split:
                            touched += ids[first]
                            sure[sure_runs, 0] = first
                            sure[sure_runs, 1] = split
                            sure_runs += 1
                        if split < last:
                            touched += np.int64(filter_record[split, 1])
                            unsure[unsure_runs, 0] = split
                            unsure[unsure_runs, 1] = last
                            unsure[unsure_runs, 2] = 1
                            unsure_runs += 1

        most = n + others
        for r in range(sure_runs):
            most += sure[r, 1] - sure[r, 0]
        for r in range(unsure_runs):
            most += unsure[r, 1] - unsure[r, 0]
        if most > len(out):
            for s in range(slots):
                code[present[s]] = 0
            if len(pattern_offsets) > 0:
                for e in range(entries_first, entries_last):
                    v = entries[e]
                    for at in range(pattern_offsets[v], pattern_offsets[v + 1]):
                        bits[pattern_numbers[at]] = 0
            return event, begin, epoch, touched, 0, most

        for r in range(sure_runs):
            first = sure[r, 0]
            last = sure[r, 1]
            if distinct and len(gone) == 0:
                for f in range(first, last):
                    out[n] = ids[f]
                    n += 1
            elif distinct:
                # Written in any case, and written over: no branch to guess.
                for f in range(first, last):
                    out[n] = ids[f]
                    n += 1 - is_gone(gone, f)
            else:
                for f in range(first, last):
                    if stamp[ids[f]] == epoch or (len(gone) > 0 and is_gone(gone, f)):
                        continue
                    stamp[ids[f]] = epoch
                    out[n] = ids[f]
                    n += 1
            if n - begin == all_ids:
                unsure_runs = 0
                break
        for r in range(unsure_runs):
            first = unsure[r, 0]
            last = unsure[r, 1]
            skip = unsure[r, 2]
            for m in range(first, last):
                f = m
                place = np.uint64(0)
                if skip < 0:
                    place = members[m, 1]
                    f = np.int64((place & _POSITION) >> HALF)
                if len(visits) > 0:
                    visits[f] += 1
                if skip < 0:
                    # A range beside the member spares most looks at the filter itself.
                    word = members[m, 0]
                    slot = np.int64((word >> SLOT_SHIFT) & SLOT_MASK)
                    c = code[slot]
                    low = np.int32((word >> CODE_SHIFT) & CODE_MASK)
                    high = np.int32(word & CODE_MASK)
                    if low < high:
                        if c < low or c >= high:
                            continue
                    elif high > 0 and not _is_other(c, low, high, slot_times[slot], slot_strings[slot]):
                        continue
                    if place & _DONE:
                        if len(gone) > 0 and is_gone(gone, f):
                            continue
                        key = np.int64(place & LOW_HALF)
                        if not distinct:
                            if stamp[key] == epoch:
                                continue
                            stamp[key] = epoch
                        out[n] = key
                        n += 1
                        continue
                place = filter_record[f, 1]
                key = np.int64(place & LOW_HALF)
                if not distinct and stamp[key] == epoch:
                    continue
                # The head, then the words from w on, until one does not hold.
                word = filter_record[f, 0]
                w = np.int64(place >> HALF)
                w_last = np.int64(filter_record[f + 1, 1] >> HALF) - max(skip, 0)
                while True:
                    what = word >> KIND_SHIFT
                    if what == RANGE:
                        slot = np.int64((word >> SLOT_SHIFT) & SLOT_MASK)
                        c = code[slot]
                        low = np.int32((word >> CODE_SHIFT) & CODE_MASK)
                        high = np.int32(word & CODE_MASK)
                        if low < high:
                            ok = low <= c and c < high
                        else:
                            ok = high == 0 or _is_other(c, low, high, slot_times[slot], slot_strings[slot])
                    elif what == SET:
                        value = np.uint64(code[np.int64((word >> SLOT_SHIFT) & SLOT_MASK)])
                        toggles = np.int64(word & CODE_MASK)
                        if toggles <= _FEW:
                            # Inside after an odd number of toggles.
                            ok = False
                            for k in range(toggles):
                                toggle = (words[w + (k >> 1)] >> (HALF * np.uint64(k & 1))) & LOW_HALF
                                ok ^= toggle <= value
                        else:
                            base = 0
                            length = toggles
                            while length > 0:
                                half = length >> 1
                                k = base + half
                                toggle = (words[w + (k >> 1)] >> (HALF * np.uint64(k & 1))) & LOW_HALF
                                if toggle <= value:
                                    base += half + 1
                                    length -= half + 1
                                else:
                                    length = half
                            ok = base & 1 == 1
                        w += (toggles + 1) >> 1
                    else:
                        ok = (bits[np.int64(word & REST_MASK)] != 0) == (what == PATTERN)
                    if not ok or w >= w_last:
                        break
                    word = words[w]
                    w += 1
                if not ok or (len(gone) > 0 and is_gone(gone, f)):
                    continue
                if not distinct:
                    stamp[key] = epoch
                out[n] = key
                n += 1
            if n - begin == all_ids:
                break

        for s in range(slots):
            code[present[s]] = 0
        if len(pattern_offsets) > 0:
            for e in range(entries_first, entries_last):
                v = entries[e]
                for at in range(pattern_offsets[v], pattern_offsets[v + 1]):
                    bits[pattern_numbers[at]] = 0
        for i in range(others):
            out[n + i] = more_ids[more_offsets[event] + i]
        n += others
        offsets[event + 1] = n
    return len(event_start), n, epoch, touched, 0, 0


@kernel
def match(
    batch: Batch,
    slot_of: Array,
    codes: Array,
    pattern_offsets: Array,
    pattern_numbers: Array,
    filters: Filters,
    lists: Lists,
    places: Places,
    distinct: bool,
    all_ids: int,
    gone: Array,
    scratch: Scratch,
    epoch: int,
    visits: Array,
    more_offsets: Array,
    more_ids: Array,
) -> tuple[Array, Array, int, int]:
    """Offsets and ids of the filters that match each of the events, the last epoch used, and a number.

    `distinct`: no id has two filters, so that none can be found twice. `all_ids`: how many ids there are,
    so that an event which matched them all is done with. `gone`: see `Deaths`. `visits`, if not empty, counts
    for each filter how often it was tested. `more_offsets` and `more_ids`, if not empty, are what another
    table found, and come after the ids of each event.
    """
    ids, filter_record, words = filters
    slot_first, slot_split, slot_last, slot_times, slot_strings, record, positions, keys = lists
    (
        absent_slot,
        absent_first,
        absent_split,
        absent_last,
        pattern_first,
        pattern_split,
        always,
        slot_planes,
        plane_record,
        buckets,
        grid,
        occupied,
        members,
    ) = places
    code, present, bits, stamp = scratch
    event_start, event_count, entries, value_attribute = batch[:4]
    events = len(event_start)
    offsets = np.zeros(events + 1, np.int64)
    out = np.empty(1024 + 16 * events, np.int32)
    sure = np.empty((256, 2), np.int32)
    unsure = np.empty((256, 3), np.int32)
    cells = np.empty(_AHEAD * 64 if len(members) > _LARGE else 0, np.int64)
    event = 0
    n = 0
    touched = np.int64(0)
    while event < events:
        event, n, epoch, more, runs, room = _match_events(
            event,
            n,
            event_start,
            event_count,
            entries,
            value_attribute,
            slot_of,
            codes,
            pattern_offsets,
            pattern_numbers,
            ids,
            filter_record,
            words,
            slot_first,
            slot_split,
            slot_last,
            slot_times,
            slot_strings,
            record,
            positions,
            keys,
            absent_slot,
            absent_first,
            absent_split,
            absent_last,
            pattern_first,
            pattern_split,
            always,
            slot_planes,
            plane_record,
            buckets,
            grid,
            occupied,
            members,
            distinct,
            all_ids,
            gone,
            code,
            present,
            bits,
            stamp,
            epoch,
            visits,
            more_offsets,
            more_ids,
            offsets,
            out,
            sure,
            unsure,
            cells,
        )
        touched += more
        if runs > 0:
            sure = np.empty((2 * runs, 2), np.int32)
            unsure = np.empty((2 * runs, 3), np.int32)
        if room > 0:
            # What is left of the events will find as much as those before, more or less.
            expected = n // max(1, event) * (events - event) * 5 // 4
            grown = np.empty(max(2 * room, n + expected), np.int32)
            grown[:n] = out[:n]
            out = grown
    return offsets, out[:n], epoch, touched
