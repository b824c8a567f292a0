"""Matching events one after another: the runs of filters that concern each, and the tests of those.

Everything here works in arrays that are there already: see `match` for who makes them.
"""

import numpy as np

from penstock.matching.kernels.jit import inlined, outlined
from penstock.matching.kernels.places import (
    BUCKET,
    DENSE,
    DOWN,
    FIRST,
    GRID,
    HIGH,
    KEYS,
    KIND,
    LEVEL,
    LOW,
    OTHER,
    OTHER_BUCKET,
    PLANE_WIDTH,
    SIZE,
    SKIP,
    WIDTH,
)
from penstock.matching.kernels.planes import AHEAD, fetch_planes
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

_POSITION = np.uint64(0x7FFFFFFF00000000)
_DONE = np.uint64(1 << 63)

_FEW_IDS = 1024
_FEW = 8
"""Sets of so few toggles are searched one by one."""


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


@outlined
def match_events(
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
        if len(cells) > 0 and (event - first_event) % AHEAD == 0:
            touched += fetch_planes(
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
