"""Tests of conditions, for filters that came lately.

Most conditions are a range of keys: a quick test, three numbers, says all about them. The others are tested
slowly, with the values themselves. See `delta_keys` for keys, and `columns` for how conditions are laid out.
"""

import numpy as np

from penstock.matching.batch import NAN
from penstock.matching.kernels.delta_keys import STRINGS, family_of, text_tail_key
from penstock.matching.kernels.folding import fold_points
from penstock.matching.kernels.jit import inlined, leaf
from penstock.matching.kernels.patterns import (
    FOLDED,
    GENERAL,
    KINDS,
    SUBSTRING,
    SUFFIX,
    code_points,
    like_short,
)
from penstock.matching.kernels.search import Array, same_bytes

_ABSENT, _BOOL, _NUMBER, _TIME, _STRING, _NAN, _EXISTS, _PATTERN_ONLY, _NEVER = range(9)
"""Kinds of condition, as in `columns`."""

TEST_WHAT, TEST_LOW, TEST_HIGH = range(3)
"""A test, for each condition: what it is about (an attribute, and above TEST_SHIFT one of these below), and
the keys that it holds for, from the least to the greatest."""

TEST_SHIFT = 32
ATTRIBUTE_MASK = (1 << TEST_SHIFT) - 1
RANGE_TESTS = 3
SHORT_TEXT = 4
SHORT_SUFFIX = 5
LOOSE_TEXT = 6
SUBSTRING_TEST = 7
SLOW = 8
"""Up to RANGE_TESTS: a range of keys, of the family of that number. A short text: its key, and its length in
the place of the greatest key. A short suffix: a range of keys of what is read backwards. A loose text: a
range of keys of strings, which at its ends has to be tested slowly. A substring: where it starts, and its
length. Everything else is tested slowly."""

_GREATEST = np.int64(2**63 - 1)
_BASE = np.uint64(0x100000001B3)
_ONE = np.uint64(1)


@leaf
def is_plain(literal_offsets: Array, literals: Array, literal: int) -> bool:
    """Whether the key of a literal says all about it: no other string that long has it."""
    size = literal_offsets[literal + 1] - literal_offsets[literal]
    return size <= 8 and (size == 0 or literals[literal_offsets[literal + 1] - 1] != 0)


@leaf
def write_test(
    c: int,
    name: int,
    kind: int,
    first: int,
    last: int,
    cut_high: Array,
    cut_low: Array,
    literal_offsets: Array,
    literals: Array,
    literal_key: Array,
    tests: Array,
) -> None:
    """A quick test for a condition without patterns, if there is one that is exact."""
    cuts = last - first
    if kind < _BOOL or kind > _STRING or cuts < 1 or cuts > 2:
        return
    begin = cut_high[first]
    end = cut_high[last - 1]
    if kind == _STRING:
        plain = is_plain(literal_offsets, literals, begin) and is_plain(literal_offsets, literals, end)
        if plain and cuts == 2 and begin == end:
            tests[c, TEST_WHAT] = (np.int64(SHORT_TEXT) << TEST_SHIFT) | name
            tests[c, TEST_LOW] = literal_key[begin]
            tests[c, TEST_HIGH] = literal_offsets[begin + 1] - literal_offsets[begin]
            return
        begin = literal_key[begin]
        end = literal_key[end]
        if not plain or cut_low[first] != 0 or (cuts == 2 and cut_low[last - 1] != 0):
            tests[c, TEST_WHAT] = (np.int64(LOOSE_TEXT) << TEST_SHIFT) | name
            tests[c, TEST_LOW] = begin
            tests[c, TEST_HIGH] = end if cuts == 2 else _GREATEST
            return
    elif kind == _NUMBER:
        # Just after a double comes the key of the next: other values are tested slowly (`BETWEEN`).
        if cut_low[first] > 1 or cut_low[last - 1] > 1:
            return
        begin += np.int64(cut_low[first])
        end += np.int64(cut_low[last - 1])
    tests[c, TEST_WHAT] = (np.int64(kind - 1) << TEST_SHIFT) | name
    tests[c, TEST_LOW] = begin
    tests[c, TEST_HIGH] = end - 1 if cuts == 2 else _GREATEST


@leaf
def write_pattern_test(
    c: int,
    name: int,
    pattern: int,
    pattern_kind: Array,
    needle_offsets: Array,
    needles: Array,
    tests: Array,
) -> None:
    """A quick test for a condition that asks for one pattern, if there is one that is exact."""
    first = needle_offsets[pattern]
    size = needle_offsets[pattern + 1] - first
    # What is shorter than the suffix is filled up with zeros, which must not be taken for its own.
    if pattern_kind[pattern] == SUFFIX and size <= 8 and needles[first] != 0:
        key = text_tail_key(needles, first, size)
        tests[c, TEST_WHAT] = (np.int64(SHORT_SUFFIX) << TEST_SHIFT) | name
        tests[c, TEST_LOW] = key
        tests[c, TEST_HIGH] = key | ((np.int64(1) << (64 - 8 * size)) - 1 if size < 8 else 0)
    elif pattern_kind[pattern] == SUBSTRING:
        tests[c, TEST_WHAT] = (np.int64(SUBSTRING_TEST) << TEST_SHIFT) | name
        tests[c, TEST_LOW] = first
        tests[c, TEST_HIGH] = size


@inlined
def is_quick(what: int) -> bool:
    """Whether a test needs the keys of a value only."""
    return (what >> TEST_SHIFT) <= LOOSE_TEXT


@leaf
def _order(a: Array, a_start: int, a_length: int, b: Array, b_start: int, b_length: int) -> int:
    """-1, 0 or 1 as one string of bytes comes before another, is the same, or comes after."""
    for i in range(min(a_length, b_length)):
        if a[a_start + i] != b[b_start + i]:
            return -1 if a[a_start + i] < b[b_start + i] else 1
    return -1 if a_length < b_length else 1 if a_length > b_length else 0


@leaf
def occurs(data: Array, start: int, length: int, text: Array, text_start: int, text_length: int) -> bool:
    """Whether a stretch of bytes occurs in a text; by a rolling hash, so that no text makes it slow."""
    if length > text_length:
        return False
    wanted = np.uint64(0)
    rolling = np.uint64(0)
    leaving = _ONE
    for i in range(length):
        wanted = wanted * _BASE + np.uint64(data[start + i])
        rolling = rolling * _BASE + np.uint64(text[text_start + i])
        if i > 0:
            leaving *= _BASE
    at = text_start
    last = text_start + text_length - length
    while True:
        if rolling == wanted and same_bytes(data, start, text, at, length):
            return True
        if at >= last:
            return False
        rolling = (rolling - leaving * np.uint64(text[at])) * _BASE + np.uint64(text[at + length])
        at += 1


@inlined
def _at_or_after(
    k: int,
    value_key: int,
    value_low: int,
    arena: Array,
    start: int,
    length: int,
    high: int,
    low: int,
    literal_offsets: Array,
    literals: Array,
    literal_key: Array,
) -> bool:
    """Whether a value is not before a cut of its family."""
    if k == _STRING:
        known = literal_key[high]
        after = value_key > known
        if value_key == known:
            begin = literal_offsets[high]
            order = _order(arena, start, length, literals, begin, literal_offsets[high + 1] - begin)
            after = order > 0 or (order == 0 and low == 0)
    elif k == _NUMBER:
        after = value_key > high or (value_key == high and value_low >= low)
    else:
        after = value_key >= high
    return after


@inlined
def holds(
    c: int,
    v: int,
    value_state: Array,
    value_bits: Array,
    value_length: Array,
    arena: Array,
    key: Array,
    low: Array,
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
    program_offsets: Array,
    symbols: Array,
    text: Array,
) -> bool:
    """Whether a condition holds for a value, or, if that is negative, for an attribute that is absent."""
    k = kind[c]
    if v < 0:
        return k == _ABSENT
    if k == _ABSENT:
        return False
    if k == _EXISTS:
        return True
    state = value_state[v]
    if k == _NAN:
        return state == NAN
    if family_of(state) != (STRINGS if k == _PATTERN_ONLY else k - 1):
        return False
    start = value_bits[v]
    length = np.int64(value_length[v])
    if k != _PATTERN_ONLY:
        # Inside after an odd number of cuts.
        cut = cut_offsets[c]
        before = 0
        span = cut_offsets[c + 1] - cut
        while span > 0:
            half = span >> 1
            at = cut + before + half
            if _at_or_after(
                k,
                key[v],
                low[v],
                arena,
                start,
                length,
                cut_high[at],
                cut_low[at],
                literal_offsets,
                literals,
                literal_key,
            ):
                before += half + 1
                span -= half + 1
            else:
                span = half
        if before & 1 == 0:
            return False
    for p in range(pattern_offsets[c], pattern_offsets[c + 1]):
        required = pattern[p] >= 0
        number = np.int64(pattern[p]) if required else -1 - np.int64(pattern[p])
        first = needle_offsets[number]
        size = needle_offsets[number + 1] - first
        if pattern_kind[number] == SUFFIX:
            found = size <= length and same_bytes(needles, first, arena, start + length - size, size)
        else:
            found = occurs(needles, first, size, arena, start, length)
            if found and pattern_kind[number] & KINDS == GENERAL:
                points = code_points(arena, start, length, text)
                if pattern_kind[number] & FOLDED:
                    fold_points(text, points)
                program = program_offsets[number]
                found = like_short(symbols, program, program_offsets[number + 1], text, points)
        if found != required:
            return False
    return True
