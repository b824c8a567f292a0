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
from penstock.matching.kernels.jit import inlined, kernel
from penstock.matching.kernels.search import Array, count_below, count_to

TRUE_WORD = np.uint64((1 << 22) - 1)
"""A range of all codes: the head of a filter that has no condition."""

RANGE = 0
SET = 1
PATTERN = 2
NOT_PATTERN = 3
"""The kinds of condition, in the two highest bits of a word."""

SLOT_BITS = 18
CODE_BITS = 22
"""A range has its slot and both ends in one word. What does not fit is stored as a set."""

LEVEL = 0
UP = 1
DOWN = 2
"""The kinds of list."""

_KIND = np.uint64(62)
_SLOT = np.uint64(2 * CODE_BITS)
_SLOT_MASK = np.uint64((1 << SLOT_BITS) - 1)
_CODE = np.uint64(CODE_BITS)
_CODE_MASK = np.uint64((1 << CODE_BITS) - 1)
_REST = np.uint64((1 << 62) - 1)

_LINEAR = 8
"""Sets of so few cuts are searched one by one."""


class Filters(NamedTuple):
    """All filters, in the order of their places.

    The head of a filter is the condition that is tested first and most often decides; the others are the
    words from its offset on. What its place makes sure of stands last, and is the head if there is no other.
    """

    ids: Array
    heads: Array
    word_offsets: Array
    words: Array
    set_slot: Array
    set_offsets: Array
    set_codes: Array


class Lists(NamedTuple):
    """The lists of each slot, those of sole conditions first (from `slot_first` to `slot_split`)."""

    slot_first: Array
    slot_split: Array
    slot_last: Array
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
    plane_other: Array
    plane_width: Array
    plane_grid: Array
    plane_bucket: Array
    plane_other_bucket: Array
    buckets: Array
    grid: Array
    members: Array


class Scratch(NamedTuple):
    """What a thread works with; all zero between events, but for the stamps."""

    code: Array
    present: Array
    bits: Array
    stamp: Array


@inlined
def _holds(
    word: int, set_slot: Array, set_offsets: Array, set_codes: Array, code: Array, bits: Array
) -> bool:
    """Whether one condition is true."""
    kind = word >> _KIND
    if kind == RANGE:
        c = np.uint64(code[(word >> _SLOT) & _SLOT_MASK])
        return (word >> _CODE) & _CODE_MASK <= c < word & _CODE_MASK
    rest = np.int64(word & _REST)
    if kind == PATTERN:
        return bits[rest] != 0
    if kind == NOT_PATTERN:
        return bits[rest] == 0
    c32 = code[set_slot[rest]]
    first = set_offsets[rest]
    last = set_offsets[rest + 1]
    if last - first <= _LINEAR:
        inside = False
        for i in range(first, last):
            if set_codes[i] <= c32:
                inside = not inside
        return inside
    return count_to(set_codes, first, last, c32) & 1 == 1


@inlined
def _add_run(
    ids: Array,
    first: int,
    last: int,
    distinct: bool,
    died: Array,
    version: int,
    stamp: Array,
    epoch: int,
    out: Array,
    n: int,
) -> int:
    """Take all filters of a run: nothing is left to test."""
    if distinct and len(died) == 0:
        for f in range(first, last):
            out[n] = ids[f]
            n += 1
    else:
        for f in range(first, last):
            if len(died) > 0 and died[f] <= version:
                continue
            i = ids[f]
            if not distinct:
                if stamp[i] == epoch:
                    continue
                stamp[i] = epoch
            out[n] = i
            n += 1
    return n


@inlined
def _room(out: Array, n: int, more: int) -> Array:
    if n + more <= len(out):
        return out
    grown = np.empty(2 * (n + more), np.int32)
    grown[:n] = out[:n]
    return grown


@inlined
def _position(
    wanted: int, low: int, high: int, dense: int, positions: Array, keys: Array, keys_at: int, size: int
) -> int:
    """How many keys of a list are below a code."""
    if dense >= 0:
        return positions[dense + min(max(wanted, low), high) - low]  # type: ignore[no-any-return]
    return count_below(keys, keys_at, keys_at + size, wanted)


@inlined
def _room_for_runs(runs: Array, count: int, more: int) -> Array:
    if count + more <= len(runs):
        return runs
    grown = np.empty((2 * (count + more), 3), np.int32)
    grown[:count] = runs[:count]
    return grown


@kernel
def match(
    batch: Batch,
    first_event: int,
    last_event: int,
    slot_of: Array,
    codes: Array,
    pattern_offsets: Array,
    pattern_numbers: Array,
    filters: Filters,
    lists: Lists,
    places: Places,
    distinct: bool,
    all_ids: int,
    died: Array,
    version: int,
    scratch: Scratch,
    epoch: int,
    visits: Array,
) -> tuple[Array, Array, int, int]:
    """Offsets and ids of the filters that match each of the events, the last epoch used, and a number.

    `distinct`: no id has two filters, so that none can be found twice. `all_ids`: how many ids there are,
    so that an event which matched them all is done with. `visits`, if not empty, counts for each filter how
    often it was tested. The number means nothing: it makes the processor fetch what will be needed.

    Tables are larger than caches, and waiting for memory is most of the work. So the runs of filters that
    concern an event are noted first, touching each: the processor fetches many at a time. Then the runs
    that have nothing left to test are taken, and at last the others are tested.
    """
    # Every field of a tuple that is looked up costs a count of references: once, not once a filter.
    ids, heads, word_offsets, words, set_slot, set_offsets, set_codes = filters
    slot_first, slot_split, slot_last, record, positions, keys = lists
    (
        absent_slot,
        absent_first,
        absent_split,
        absent_last,
        pattern_first,
        pattern_split,
        always,
        slot_planes,
        plane_other,
        plane_width,
        plane_grid,
        plane_bucket,
        plane_other_bucket,
        buckets,
        grid,
        members,
    ) = places
    code, present, bits, stamp = scratch
    event_start, event_count, entries, value_attribute = batch[:4]
    offsets = np.zeros(last_event - first_event + 1, np.int64)
    out = np.empty(max(1024, 4 * (last_event - first_event)), np.int32)
    sure = np.empty((256, 3), np.int32)
    unsure = np.empty((256, 3), np.int32)
    touched = np.int64(0)
    n = 0
    for event in range(first_event, last_event):
        if event_count[event] == NO_EVENT:
            offsets[event - first_event + 1] = n
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
            sure = _room_for_runs(sure, sure_runs, lists_split - lists_first)
            unsure = _room_for_runs(
                unsure, unsure_runs, lists_last - lists_split + planes_last - planes_first
            )
            for at in range(lists_first, lists_last):
                low = record[at, LOW]
                high = record[at, HIGH]
                if c < low or c >= high:
                    continue
                first = record[at, FIRST]
                size = record[at, SIZE]
                dense = record[at, DENSE]
                kind = record[at, KIND]
                last = first + _position(c + 1, low, high, dense, positions, keys, record[at, KEYS], size)
                if kind == DOWN:
                    first, last = last, first + size
                elif kind == LEVEL:
                    first += _position(
                        c + 1 - record[at, WIDTH],
                        low,
                        high,
                        dense,
                        positions,
                        keys,
                        record[at, KEYS],
                        size,
                    )
                if first >= last:
                    continue
                if at < lists_split:
                    touched += ids[first]
                    sure[sure_runs, 0] = first
                    sure[sure_runs, 1] = last
                    sure_runs += 1
                else:
                    touched += np.int64(heads[first])
                    unsure[unsure_runs, 0] = first
                    unsure[unsure_runs, 1] = last
                    unsure[unsure_runs, 2] = record[at, SKIP]
                    unsure_runs += 1
            for plane in range(planes_first, planes_last):
                cell = plane_grid[plane]
                other = plane_other[plane]
                if other >= 0:
                    c_other = code[other]
                    if c_other == 0:
                        continue
                    cell += np.int64(buckets[plane_bucket[plane] + c]) * plane_width[plane]
                    cell += buckets[plane_other_bucket[plane] + c_other]
                else:
                    cell += buckets[plane_bucket[plane] + c]
                first = grid[cell]
                last = grid[cell + 1]
                if first < last:
                    touched += members[first]
                    unsure[unsure_runs, 0] = first
                    unsure[unsure_runs, 1] = last
                    unsure[unsure_runs, 2] = -1
                    unsure_runs += 1
        sure = _room_for_runs(sure, sure_runs, 1 + len(absent_slot))
        unsure = _room_for_runs(unsure, unsure_runs, 1 + len(absent_slot))
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
                sure = _room_for_runs(sure, sure_runs, matched_last - matched_first)
                unsure = _room_for_runs(unsure, unsure_runs, matched_last - matched_first)
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
                        touched += np.int64(heads[split])
                        unsure[unsure_runs, 0] = split
                        unsure[unsure_runs, 1] = last
                        unsure[unsure_runs, 2] = 1
                        unsure_runs += 1

        for r in range(sure_runs):
            first = sure[r, 0]
            last = sure[r, 1]
            out = _room(out, n, last - first)
            n = _add_run(ids, first, last, distinct, died, version, stamp, epoch, out, n)
            if n - begin == all_ids:
                unsure_runs = 0
                break
        for r in range(unsure_runs):
            first = unsure[r, 0]
            last = unsure[r, 1]
            skip = unsure[r, 2]
            out = _room(out, n, last - first)
            for m in range(first, last):
                f = m
                if skip < 0:
                    f = members[m]
                if not distinct and stamp[ids[f]] == epoch:
                    continue
                if len(visits) > 0:
                    visits[f] += 1
                if not _holds(heads[f], set_slot, set_offsets, set_codes, code, bits):
                    continue
                ok = True
                for w in range(word_offsets[f], word_offsets[f + 1] - max(skip, 0)):
                    if not _holds(words[w], set_slot, set_offsets, set_codes, code, bits):
                        ok = False
                        break
                if not ok or (len(died) > 0 and died[f] <= version):
                    continue
                if not distinct:
                    stamp[ids[f]] = epoch
                out[n] = ids[f]
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
        offsets[event - first_event + 1] = n
    return offsets, out[:n], epoch, touched
