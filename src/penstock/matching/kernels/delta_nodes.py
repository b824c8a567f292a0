"""Kernels that give filters which came lately a node, by which events find them.

The values of an attribute, and of a family, are ordered by keys of 64 bits: numbers by their bits, strings
by their first eight bytes. A grid of some level cuts all keys into stretches of 2**level; a range stands at
the one or two stretches, of the lowest level where two are enough, that it lies in. Single values stand in a
grid of their own, under a hash. Suffixes are prefixes of what is read backwards, and other patterns stand
under one to three bytes that their longest stretch ends with. An event visits in each grid that is used the
one stretch that its value lies in.

Of its conditions a filter stands at the one that events are least likely to visit.
"""

from typing import Any, NamedTuple

import numpy as np

from penstock.matching.kernels.delta_keys import STRINGS, text_tail_key
from penstock.matching.kernels.delta_tests import (
    SLOW,
    TEST_HIGH,
    TEST_LOW,
    TEST_SHIFT,
    TEST_WHAT,
    is_plain,
    is_quick,
    write_pattern_test,
    write_test,
)
from penstock.matching.kernels.jit import inlined, kernel, leaf
from penstock.matching.kernels.patterns import SUFFIX
from penstock.matching.kernels.search import Array, count_below, count_to, hash_bytes

_ABSENT, _BOOL, _NUMBER, _TIME, _STRING, _NAN, _EXISTS, _PATTERN_ONLY, _NEVER = range(9)

SUFFIX_SPACE = 4
GRAM_SPACE = 5
PRESENT_SPACE = 6
"""What keys are about: the families from 0 to 3, strings read backwards, bytes of strings, presence."""

EXACT = 64
"""The level of single values."""

PRESENT_FLAG = 1 << 12
"""Flags of an attribute: whether it is named at all (`USED_FLAG`), is looked for by presence, by grams of one
to three bytes (from 1 << GRAM_SPACE + 1 on), and by single values (from 1 on, by family)."""

USED_FLAG = 1 << 13

POINTS_MAX = 16
"""A list of so many values stands at each of them; a longer one as the range that it spans."""

ENTRY_NODE, ENTRY_PLACE, ENTRY_PROBE, ENTRY_LOW, ENTRY_HIGH, ENTRY_FILTER = range(6)
"""An entry: a filter at a node. The grid; a test (below) that the filter has besides, which spares most looks
at the filter itself, or -1; the filter's id, the filter, and a bit that is set if nothing else has to be
tested then (`packed`)."""

_K1 = np.uint64(0x9E3779B97F4A7C15)
_K2 = np.uint64(0xC2B2AE3D27D4EB4F)
_K3 = np.uint64(0x165667B19E3779F9)
_GREATEST = np.int64(2**63 - 1)

_WIDE = 60
"""Stretches of this level are so few that those of the highest do as well."""

_GUESS_POINT = 0.01
_GUESS_RANGE = 0.3
_GUESS_SUFFIX = 0.02
_GUESS_GRAM = 0.05
_GUESS_PRESENT = 0.1
_SURE = 8.0
"""Chances where nothing is known, and how many events of a sample weigh as much."""


class Forecast(NamedTuple):
    """What a sample of events says: for each attribute how many have it, and for each of its families the
    keys, sorted (from `offsets[4 * attribute + family]` on)."""

    events: float
    present: Array
    offsets: Array
    keys: Array


@inlined
def grid_of(attribute: int, space: int, level: int) -> int:
    """The number of a grid."""
    return (np.int64(attribute) << 10) | (space << 7) | level


def attribute_of_grid(place: int) -> int:
    """The attribute of a grid."""
    return place >> 10


@inlined
def space_of_grid(place: int) -> int:
    """The space of a grid."""
    return (place >> 7) & 7


@inlined
def node_hash(node: int, place: int) -> Any:
    """A hash of a node: some bits say in which bucket it stands, others whether to look there at all."""
    h = (np.uint64(node) * _K1) ^ (np.uint64(place) * _K2)
    h ^= h >> np.uint64(32)
    return h * _K3


@inlined
def bucket_of(h: Any, buckets: int) -> int:
    """The bucket, of a power of two, that a node of some hash is looked for in."""
    return np.int64((h >> np.uint64(32)) & np.uint64(buckets - 1))


@inlined
def lowest_bit(mask: int) -> int:
    """The number of the lowest bit that is set: the exponent of that bit as a double."""
    return (np.float64(mask & (~mask + np.uint64(1))).view(np.int64) >> 52) - 1023


@inlined
def gram_at(data: Array, at: int, size: int) -> int:
    """Some bytes as one number."""
    gram = np.int64(data[at])
    for i in range(1, size):
        gram = (gram << 8) | np.int64(data[at + i])
    return gram


@inlined
def _seen(offsets: Array, keys: Array, attribute: int, space: int, low: int, high: int) -> float:
    """How many values of the sample have a key from `low` to `high`."""
    at = 4 * attribute + space
    count = 0
    if at + 1 < len(offsets):
        first = offsets[at]
        last = offsets[at + 1]
        if first < last:
            count = count_to(keys, first, last, high) - count_below(keys, first, last, low)
    return np.float64(count)


@inlined
def _presence(events: float, present: Array, attribute: int) -> float:
    if attribute < len(present):
        share = (present[attribute] + _SURE * _GUESS_PRESENT) / (events + _SURE)
    else:
        share = _GUESS_PRESENT
    return share


@leaf
def _are_points(kind: int, first: int, last: int, cut_high: Array, cut_low: Array) -> bool:
    """Whether cuts make single values, and few enough."""
    if (last - first) & 1 or last - first > 2 * POINTS_MAX or first == last:
        return False
    for i in range(first, last, 2):
        high = cut_high[i]
        if kind == _STRING or kind == _NUMBER:
            # Not integers that no double holds: their keys are those of others, too.
            single = cut_high[i + 1] == high and cut_low[i] == 0 and cut_low[i + 1] == 1
        else:
            single = cut_high[i + 1] == high + 1
        if not single:
            return False
    return True


@leaf
def _bounds(
    kind: int,
    first: int,
    last: int,
    cut_high: Array,
    cut_low: Array,
    literal_offsets: Array,
    literals: Array,
    literal_key: Array,
) -> tuple[int, int]:
    """The least and the greatest key that a value between cuts may have."""
    low = literal_key[cut_high[first]] if kind == _STRING else cut_high[first]
    if (last - first) & 1:
        return low, _GREATEST
    end = cut_high[last - 1]
    if kind != _STRING:
        # What comes before a cut has a lesser key, unless the cut lies between two doubles.
        return low, end - 1 if cut_low[last - 1] == 0 else end
    high = literal_key[end]
    size = literal_offsets[end + 1] - literal_offsets[end]
    if cut_low[last - 1] == 0 and size > 0 and is_plain(literal_offsets, literals, end):
        high -= 1
    return low, high


@leaf
def level_of(space: int, low: int, high: int) -> int:
    """The lowest level, of those in use, at which two stretches hold all keys from `low` to `high`.

    Each level that is used is looked at for each event, so that strings use few: of 0, 2, 4 and 6 bytes.
    """
    level = 0
    step = 16 if space >= STRINGS else 1
    # Unsigned: the difference of the farthest keys is more than 63 bits hold.
    while level < 63 and np.uint64(high >> level) - np.uint64(low >> level) > np.uint64(1):
        level = min(level + step, 63)
    return 63 if level >= _WIDE else level


@inlined
def packed(number: int, f: int) -> int:
    """An id and a filter as one number, whose lowest bit is free."""
    return (np.int64(number) << 32) | (np.int64(f) << 1)


@inlined
def packed_filter(pair: int) -> int:
    """The filter of an id and a filter."""
    return (pair & 0xFFFFFFFF) >> 1


@kernel
def place_raw(
    first_filter: int,
    last_filter: int,
    ids: Array,
    filter_offsets: Array,
    attribute: Array,
    kind: Array,
    cut_offsets: Array,
    cut_high: Array,
    cut_low: Array,
    pattern_offsets: Array,
    pattern: Array,
    literal_offsets: Array,
    literals: Array,
    literal_key: Array,
    pattern_kind: Array,
    needle_offsets: Array,
    needles: Array,
    forecast: Forecast,
    tests: Array,
    levels: Array,
    flags: Array,
    entries: Array,
    n: int,
    always: Array,
    m: int,
) -> tuple[int, int]:
    """Give filters their nodes: entries from `n` on, and those that have none from `m` on in `always`.

    There is room for POINTS_MAX entries of each filter. Returns how many there are in both.
    """
    events, present, sample_offsets, sample_keys = forecast
    most = 0
    for f in range(first_filter, last_filter):
        most = max(most, filter_offsets[f + 1] - filter_offsets[f])
    chances = np.ones(most, np.float64)
    for f in range(first_filter, last_filter):
        best = 1.0
        access = -1
        by_pattern = -1
        for c in range(filter_offsets[f], filter_offsets[f + 1]):
            k = kind[c]
            if k == _NEVER:
                best = -1.0
                continue
            name = np.int64(attribute[c])
            flags[name] |= USED_FLAG
            tests[c, TEST_WHAT] = (np.int64(SLOW) << TEST_SHIFT) | name
            patterns = pattern_offsets[c + 1] - pattern_offsets[c]
            if patterns == 0:
                write_test(
                    c,
                    name,
                    k,
                    cut_offsets[c],
                    cut_offsets[c + 1],
                    cut_high,
                    cut_low,
                    literal_offsets,
                    literals,
                    literal_key,
                    tests,
                )
            elif patterns == 1 and pattern[pattern_offsets[c]] >= 0:
                # Of all strings, which is what one cut, the empty string, stands for.
                cut = cut_offsets[c]
                whole = k == _PATTERN_ONLY
                if k == _STRING and cut_offsets[c + 1] == cut + 1 and cut_low[cut] == 0:
                    whole = literal_offsets[cut_high[cut] + 1] == literal_offsets[cut_high[cut]]
                if whole:
                    write_pattern_test(
                        c, name, pattern[pattern_offsets[c]], pattern_kind, needle_offsets, needles, tests
                    )
            chances[c - filter_offsets[f]] = 1.0
            if k == _ABSENT:
                continue
            share = _presence(events, present, name)
            for p in range(pattern_offsets[c], pattern_offsets[c + 1]):
                if pattern[p] < 0:
                    continue
                size = needle_offsets[pattern[p] + 1] - needle_offsets[pattern[p]]
                guess = _GUESS_SUFFIX if pattern_kind[pattern[p]] == SUFFIX else _GUESS_GRAM
                guess *= 1.0 if size >= 3 else 3.0 if size == 2 else 10.0 if size == 1 else 100.0
                if share * guess < best:
                    best = share * guess
                    access = c
                    by_pattern = p
            chance = share
            if k >= _BOOL and k <= _STRING:
                begin = cut_offsets[c]
                end = cut_offsets[c + 1]
                total = 0.0
                if _are_points(k, begin, end, cut_high, cut_low):
                    for i in range(begin, end, 2):
                        key = literal_key[cut_high[i]] if k == _STRING else cut_high[i]
                        total += _seen(sample_offsets, sample_keys, name, k - 1, key, key)
                        total += _SURE * share * _GUESS_POINT
                else:
                    low, high = _bounds(
                        k, begin, end, cut_high, cut_low, literal_offsets, literals, literal_key
                    )
                    level = level_of(k - 1, low, high)
                    mask = (np.int64(1) << level) - 1
                    total = _seen(sample_offsets, sample_keys, name, k - 1, low & ~mask, high | mask)
                    total += _SURE * share * _GUESS_RANGE
                chance = total / (events + _SURE)
            if chance < best:
                best = chance
                access = c
                by_pattern = -1
            chances[c - filter_offsets[f]] = chance
        if best < 0.0:
            continue
        if access < 0:
            always[m] = f
            m += 1
            continue
        c = access
        k = kind[c]
        name = np.int64(attribute[c])
        start = n
        if by_pattern >= 0:
            number = pattern[by_pattern]
            begin = needle_offsets[number]
            size = needle_offsets[number + 1] - begin
            if size == 0:
                flags[name] |= PRESENT_FLAG
                entries[n, ENTRY_PLACE] = grid_of(name, PRESENT_SPACE, 0)
                entries[n, ENTRY_NODE] = 0
            elif pattern_kind[number] == SUFFIX:
                level = (64 - 8 * min(size, 8) + 15) & ~15
                level = min(level, 63)
                levels[name, SUFFIX_SPACE] |= np.uint64(1) << np.uint64(level)
                entries[n, ENTRY_PLACE] = grid_of(name, SUFFIX_SPACE, level)
                entries[n, ENTRY_NODE] = text_tail_key(needles, begin, size) >> level
            else:
                grams = min(size, 3)
                flags[name] |= 1 << (GRAM_SPACE + grams)
                entries[n, ENTRY_PLACE] = grid_of(name, GRAM_SPACE, grams)
                # The end: what differs least is written first.
                entries[n, ENTRY_NODE] = gram_at(needles, begin + size - grams, grams)
            n += 1
        elif k < _BOOL or k > _STRING:
            flags[name] |= PRESENT_FLAG
            entries[n, ENTRY_PLACE] = grid_of(name, PRESENT_SPACE, 0)
            entries[n, ENTRY_NODE] = 0
            n += 1
        else:
            begin = cut_offsets[c]
            end = cut_offsets[c + 1]
            space = np.int64(k) - 1
            if _are_points(k, begin, end, cut_high, cut_low):
                flags[name] |= 1 << space
                for i in range(begin, end, 2):
                    if k == _STRING:
                        at = literal_offsets[cut_high[i]]
                        size = literal_offsets[cut_high[i] + 1] - at
                        entries[n, ENTRY_NODE] = np.int64(hash_bytes(literals, at, size))
                    else:
                        entries[n, ENTRY_NODE] = cut_high[i]
                    entries[n, ENTRY_PLACE] = grid_of(name, space, EXACT)
                    # Two strings may have the same hash.
                    fresh = True
                    for j in range(start, n):
                        fresh &= entries[j, ENTRY_NODE] != entries[n, ENTRY_NODE]
                    n += fresh
            else:
                low, high = _bounds(k, begin, end, cut_high, cut_low, literal_offsets, literals, literal_key)
                level = level_of(k - 1, low, high)
                levels[name, space] |= np.uint64(1) << np.uint64(level)
                entries[n, ENTRY_PLACE] = grid_of(name, space, level)
                entries[n, ENTRY_NODE] = low >> level
                n += 1
                if high >> level != low >> level:
                    entries[n, ENTRY_PLACE] = entries[n - 1, ENTRY_PLACE]
                    entries[n, ENTRY_NODE] = high >> level
                    n += 1
        probe = -1
        least = 2.0
        for c in range(filter_offsets[f], filter_offsets[f + 1]):
            if c != access and chances[c - filter_offsets[f]] < least and is_quick(tests[c, TEST_WHAT]):
                probe = c
                least = chances[c - filter_offsets[f]]
        alone = filter_offsets[f + 1] - filter_offsets[f] == 1
        if alone and is_quick(tests[access, TEST_WHAT]):
            probe = access
        for j in range(start, n):
            entries[j, ENTRY_PROBE] = -1
            if probe >= 0:
                entries[j, ENTRY_PROBE] = tests[probe, TEST_WHAT]
                entries[j, ENTRY_LOW] = tests[probe, TEST_LOW]
                entries[j, ENTRY_HIGH] = tests[probe, TEST_HIGH]
            entries[j, ENTRY_FILTER] = packed(ids[f], f) | (alone and probe >= 0)
    return n, m


@kernel
def make_run(first: int, last: int, entries: Array) -> tuple[Any, Any, Any]:
    """Some entries by bucket; see `Run`."""
    count = last - first
    buckets = 64
    while buckets < 2 * count:
        buckets *= 2
    starts = np.zeros(buckets + 1, np.int32)
    bucket = np.empty(count, np.int32)
    occupied = np.zeros(buckets >> 3, np.uint64)
    for i in range(count):
        h = node_hash(entries[first + i, ENTRY_NODE], entries[first + i, ENTRY_PLACE])
        bucket[i] = bucket_of(h, buckets)
        starts[bucket[i] + 1] += 1
        bit = h >> np.uint64(24)
        occupied[np.int64(bit >> np.uint64(6)) & (len(occupied) - 1)] |= np.uint64(1) << (bit & np.uint64(63))
    for b in range(buckets):
        starts[b + 1] += starts[b]
    arranged = np.empty((count, 6), np.int64)
    at = starts[:-1].copy()
    for i in range(count):
        to = at[bucket[i]]
        at[bucket[i]] += 1
        for k in range(6):
            arranged[to, k] = entries[first + i, k]
    return occupied, starts, arranged
