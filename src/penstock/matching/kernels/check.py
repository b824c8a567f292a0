"""Kernels that look through a table from a file: whether the others can work with it and stay within arrays.

Each returns the number of the first row that is wrong, or -1. What they accept may still be nonsense, and
match nonsense; it crashes nothing.
"""

import numpy as np

from penstock.matching.kernels.jit import kernel, outlined
from penstock.matching.kernels.places import (
    BUCKET,
    DENSE,
    DOWN,
    FIRST,
    GRID,
    HIGH,
    KEYS,
    KIND,
    LOW,
    OTHER,
    OTHER_BUCKET,
    PLANE_WIDTH,
    SIZE,
    SKIP,
)
from penstock.matching.kernels.resolve import LISTS, NUMBERS
from penstock.matching.kernels.search import Array, find_string, hash_bytes
from penstock.matching.kernels.words import (
    CODE_MASK,
    CODE_SHIFT,
    HALF,
    KIND_SHIFT,
    LOW_HALF,
    PATTERN,
    RANGE,
    REST_MASK,
    SLOT_MASK,
    SLOT_SHIFT,
    TRUE_WORD,
)

_POSITION = np.uint64(0x7FFFFFFF)


@outlined
def _is_good_range(low: int, high: int, times: int, strings: int, end: int) -> bool:
    """Whether a range, or all of a family but its ends, is of codes of one family."""
    if low < 2:
        return low < high and high <= end
    least = low if low < high else high
    most = high if low < high else low + 1
    if least < NUMBERS:
        return 2 <= least and most <= LISTS
    if least < times:
        return least > NUMBERS and most <= times
    if least < strings:
        return least > times and most <= strings
    return least > strings and most <= end


@outlined
def _is_good_word(word: int, ends: Array, patterns: int) -> bool:
    """Whether a word that is no set names a slot, codes or a pattern that there are."""
    if word == TRUE_WORD:
        return True
    if word >> KIND_SHIFT >= PATTERN:
        return np.int64(word & REST_MASK) < patterns
    slot = np.int64((word >> SLOT_SHIFT) & SLOT_MASK)
    if slot >= len(ends):
        return False
    low = np.int64((word >> CODE_SHIFT) & CODE_MASK)
    high = np.int64(word & CODE_MASK)
    return _is_good_range(low, high, ends[slot, 0], ends[slot, 1], ends[slot, 2])


@kernel
def check_different(data: Array, offsets: Array, slots: Array) -> int:
    """Strings, all different; `slots` is an empty hash table with room for them."""
    mask = np.uint64(len(slots) - 1)
    for i in range(len(offsets) - 1):
        start = offsets[i]
        length = offsets[i + 1] - start
        if find_string(data, offsets, slots, data, start, length) >= 0:
            return i
        at = hash_bytes(data, start, length) & mask
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = i + 1
    return -1


@kernel
def check_filters(ids: Array, record: Array, words: Array, ends: Array, patterns: int, known_ids: int) -> int:
    """Filters: their ids, their words, and what these name. `ends` are those of `slot_ends`."""
    for f in range(len(ids)):
        w = np.int64(record[f, 1] >> HALF)
        last = np.int64(record[f + 1, 1] >> HALF)
        if ids[f] < 0 or ids[f] >= known_ids or np.int64(record[f, 1] & LOW_HALF) != ids[f]:
            return f
        if w < 0 or w > last or last > len(words):
            return f
        word = record[f, 0]
        while True:
            if word >> KIND_SHIFT == RANGE or word >> KIND_SHIFT >= PATTERN:
                if not _is_good_word(word, ends, patterns):
                    return f
            else:
                slot = np.int64((word >> SLOT_SHIFT) & SLOT_MASK)
                toggles = np.int64(word & CODE_MASK)
                if slot >= len(ends) or toggles < 2 or w + ((toggles + 1) >> 1) > last:
                    return f
                first = np.int64(words[w] & LOW_HALF)
                before = first - 1
                for k in range(toggles):
                    code = np.int64((words[w + (k >> 1)] >> (HALF * np.uint64(k & 1))) & LOW_HALF)
                    if code <= before:
                        return f
                    before = code
                if not _is_good_range(first, before, ends[slot, 0], ends[slot, 1], ends[slot, 2]):
                    return f
                w += (toggles + 1) >> 1
            if w >= last:
                break
            word = words[w]
            w += 1
    return -1


@kernel
def check_lists(record: Array, positions: Array, keys: Array, filters: int) -> int:
    """Lists: that what they find are filters, and neither end of a run lies before its beginning."""
    for at in range(len(record)):
        size = np.int64(record[at, SIZE])
        low = np.int64(record[at, LOW])
        high = np.int64(record[at, HIGH])
        dense = np.int64(record[at, DENSE])
        key = np.int64(record[at, KEYS])
        if record[at, KIND] < 0 or record[at, KIND] > DOWN or record[at, SKIP] < 0 or record[at, SKIP] > 1:
            return at
        if low < 0 or low > high or size < 0 or record[at, FIRST] < 0 or record[at, FIRST] + size > filters:
            return at
        if dense >= 0:
            if dense + high - low >= len(positions):
                return at
            before = 0
            for i in range(dense, dense + high - low + 1):
                if positions[i] < before or positions[i] > size:
                    return at
                before = positions[i]
        elif key < 0 or key + size > len(keys):
            return at
        else:
            for i in range(key + 1, key + size):
                if keys[i] < keys[i - 1]:
                    return at
    return -1


@kernel
def check_planes(
    slot_planes: Array, plane_record: Array, buckets: Array, cells: int, occupied: int, ends: Array
) -> int:
    """Planes: that every pair of codes leads to a cell."""
    for slot in range(len(ends)):
        for plane in range(slot_planes[slot], slot_planes[slot + 1]):
            most = np.int64(0)
            for half in range(2):
                other = slot if half == 0 else np.int64(plane_record[plane, OTHER])
                if half == 1 and other == -1:
                    break
                if other < 0 or other >= len(ends):
                    return plane
                width = np.int64(plane_record[plane, PLANE_WIDTH]) if half == 1 else np.int64(1)
                first = np.int64(plane_record[plane, BUCKET if half == 0 else OTHER_BUCKET])
                if first < 0 or width < 1 or first + ends[other, 2] > len(buckets):
                    return plane
                greatest = np.int64(0)
                for i in range(first, first + ends[other, 2]):
                    if buckets[i] < 0:
                        return plane
                    greatest = max(greatest, np.int64(buckets[i]))
                most = most * width + greatest
            grid = np.int64(plane_record[plane, GRID])
            if grid < 0 or grid + most >= cells or (grid + most) >> 6 >= occupied:
                return plane
    return -1


@kernel
def check_members(members: Array, ends: Array, filters: int, known_ids: int) -> int:
    """Members of cells: their probes, filters and ids."""
    for m in range(len(members)):
        word = members[m, 0]
        if word >> KIND_SHIFT != RANGE or not _is_good_word(word, ends, 0):
            return m
        if np.int64((members[m, 1] >> HALF) & _POSITION) >= filters:
            return m
        if np.int64(members[m, 1] & LOW_HALF) >= known_ids:
            return m
    return -1
