"""Kernels for patterns on strings: all suffixes, substrings and LIKE patterns that a string matches.

The longest literal stretch of a pattern is its needle. All needles of a table form one Aho-Corasick
automaton over UTF-8 bytes, so that one pass over a string finds every needle in it; a suffix or substring
is decided by that, any other pattern is then verified. Verifying never backtracks far: stretches between
runs are found from left to right, by trying for short texts and by shift-and, 64 symbols of pattern at a
time, for long ones.
"""

from typing import NamedTuple

import numpy as np

from penstock.matching.kernels.jit import inlined, kernel, leaf, outlined
from penstock.matching.kernels.search import Array, count_below

SUFFIX = 0
SUBSTRING = 1
GENERAL = 2
"""How a pattern is decided once its needle has been found."""

ONE = -1
RUN = -2
"""Wildcards in the symbols of a general pattern; everything else is a code point."""

_TRYING_MAX = 4096
"""Up to so many comparisons a stretch is looked for by trying each place."""

_ONE64 = np.uint64(1)


class Automaton(NamedTuple):
    """The needles as a trie with failure links; node 0 is the root. See `build_automaton`."""

    edge_key: Array
    edge_child: Array
    fail: Array
    needle: Array
    link: Array


class Patterns(NamedTuple):
    """The patterns of a table, ordered by needle and then slot; needle number `n` is "no needle"."""

    needle_patterns: Array
    slot: Array
    kind: Array
    program: Array
    program_offsets: Array
    symbols: Array
    slot_has: Array


@inlined
def _mixed(key: int) -> int:
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(h >> np.uint64(20))


@inlined
def _child(edge_key: Array, edge_child: Array, node: int, byte: int) -> int:
    """The child of a node, or 0."""
    mask = len(edge_key) - 1
    key = ((node << 8) | byte) + 1
    at = _mixed(key) & mask
    while True:
        found = edge_key[at]
        if found == key:
            return edge_child[at]  # type: ignore[no-any-return]
        if found == 0:
            return 0
        at = (at + 1) & mask


@kernel
def build_automaton(
    data: Array, offsets: Array, edge_key: Array, edge_child: Array, fail: Array, needle: Array, link: Array
) -> int:
    """Fill the arrays of an automaton from distinct, non-empty needles; returns the number of nodes.

    The arrays have room for as many nodes as there are bytes, and the root; edges for twice that, at a
    power of two.
    """
    nodes = len(fail)
    parent = np.empty(nodes, np.int32)
    byte_of = np.empty(nodes, np.uint8)
    depth = np.zeros(nodes, np.int32)
    mask = len(edge_key) - 1
    count = 1
    needle[:] = -1
    for i in range(len(offsets) - 1):
        node = 0
        for at in range(offsets[i], offsets[i + 1]):
            byte = data[at]
            key = ((node << 8) | byte) + 1
            slot = _mixed(key) & mask
            while edge_key[slot] != 0 and edge_key[slot] != key:
                slot = (slot + 1) & mask
            if edge_key[slot] == 0:
                edge_key[slot] = key
                edge_child[slot] = count
                parent[count] = node
                byte_of[count] = byte
                depth[count] = depth[node] + 1
                count += 1
            node = edge_child[slot]
        needle[node] = i
    fail[0] = 0
    link[0] = 0
    order = np.argsort(depth[:count], kind="mergesort")
    for i in range(1, count):
        node = order[i]
        back = parent[node]
        fail[node] = 0
        while back != 0:
            back = fail[back]
            found = _child(edge_key, edge_child, back, byte_of[node])
            if found != 0:
                fail[node] = found
                break
        suffix = fail[node]
        link[node] = suffix if needle[suffix] >= 0 else link[suffix]
    return count


@inlined
def matching_patterns(
    edge_key: Array,
    edge_child: Array,
    fail: Array,
    needle_at: Array,
    link: Array,
    needle_patterns: Array,
    pattern_slot: Array,
    pattern_kind: Array,
    program: Array,
    program_offsets: Array,
    symbols: Array,
    slot: int,
    arena: Array,
    start: int,
    length: int,
    seen: Array,
    epoch: int,
    text: Array,
    found: Array,
) -> int:
    """Put the numbers of all patterns of the slot that the string matches into `found`; how many.

    `seen` has a place for each node and holds no epoch yet that is `epoch`: each needle is looked at once
    however often it occurs, so that the cost is the string's length and the number of its needles. `text`
    has room for the string's code points, where some pattern has to be verified.
    """
    total = 0
    size = -1
    state = 0
    end = start + length
    none = len(needle_patterns) - 2
    # One turn more than there are bytes, for the patterns that have no needle.
    for at in range(start, end + 1):
        node = 0
        if at < end:
            byte = arena[at]
            following = _child(edge_key, edge_child, state, byte)
            while following == 0 and state != 0:
                state = fail[state]
                following = _child(edge_key, edge_child, state, byte)
            state = following
            node = state if needle_at[state] >= 0 else link[state]
        at_end = at == end - 1
        while at == end or (node != 0 and (at_end or seen[node] != epoch)):
            fresh = True
            needle = none
            if at < end:
                fresh = seen[node] != epoch
                seen[node] = epoch
                needle = needle_at[node]
            last = needle_patterns[needle + 1]
            p = needle_patterns[needle]
            p += count_below(pattern_slot, p, last, slot)
            while p < last and pattern_slot[p] == slot:
                kind = pattern_kind[p]
                ok = at_end if kind == SUFFIX else fresh
                if ok and kind == GENERAL:
                    if size < 0:
                        size = code_points(arena, start, length, text)
                    ok = like(
                        symbols, program_offsets[program[p]], program_offsets[program[p] + 1], text, size
                    )
                if ok:
                    found[total] = p
                    total += 1
                p += 1
            if at == end:
                break
            node = link[node]
    return total


@leaf
def code_points(arena: Array, start: int, length: int, text: Array) -> int:
    """Decode valid UTF-8 into `text`; returns how many code points there are."""
    n = 0
    at = start
    end = start + length
    while at < end:
        b = np.int32(arena[at])
        if b < 0x80:
            text[n] = b
            at += 1
        elif b < 0xE0:
            text[n] = ((b & 0x1F) << 6) | (np.int32(arena[at + 1]) & 0x3F)
            at += 2
        elif b < 0xF0:
            text[n] = (
                ((b & 0x0F) << 12)
                | ((np.int32(arena[at + 1]) & 0x3F) << 6)
                | (np.int32(arena[at + 2]) & 0x3F)
            )
            at += 3
        else:
            text[n] = (
                ((b & 0x07) << 18)
                | ((np.int32(arena[at + 1]) & 0x3F) << 12)
                | ((np.int32(arena[at + 2]) & 0x3F) << 6)
                | (np.int32(arena[at + 3]) & 0x3F)
            )
            at += 4
        n += 1
    return n


@inlined
def _fits(symbols: Array, first: int, last: int, text: Array, at: int) -> bool:
    """Whether a stretch without runs matches the text at a place, where there is room for it."""
    for i in range(last - first):
        symbol = symbols[first + i]
        if symbol != ONE and symbol != text[at + i]:
            return False
    return True


@leaf
def _find_by_trying(symbols: Array, first: int, last: int, text: Array, start: int, end: int) -> int:
    """The first place from `start` where a stretch without runs ends by `end`; or -1."""
    for at in range(start, end - (last - first) + 1):
        if _fits(symbols, first, last, text, at):
            return at
    return -1


@outlined
def _find(symbols: Array, first: int, last: int, text: Array, start: int, end: int) -> int:
    """The same, in a time that depends on the length of the text alone, more or less."""
    size = last - first
    if end - start < size:
        return -1
    if (end - start) * size <= _TRYING_MAX:
        return _find_by_trying(symbols, first, last, text, start, end)
    words = (size + 63) >> 6
    letters = np.unique(symbols[first:last])
    masks = np.zeros((len(letters) + 1, words), np.uint64)
    for i in range(size):
        bit = _ONE64 << np.uint64(i & 63)
        if symbols[first + i] == ONE:
            for row in range(len(letters) + 1):
                masks[row, i >> 6] |= bit
        else:
            masks[count_below(letters, 0, len(letters), symbols[first + i]), i >> 6] |= bit
    state = np.zeros(words, np.uint64)
    last_bit = _ONE64 << np.uint64((size - 1) & 63)
    for at in range(start, end):
        row = count_below(letters, 0, len(letters), text[at])
        if row == len(letters) or letters[row] != text[at]:
            row = len(letters)
        carry = _ONE64
        for w in range(words):
            moved = (state[w] << _ONE64) | carry
            carry = state[w] >> np.uint64(63)
            state[w] = moved & masks[row, w]
        if state[words - 1] & last_bit:
            return at - size + 1
    return -1


@leaf
def _ends_fit(symbols: Array, first: int, last: int, text: Array, size: int) -> tuple[bool, int, int]:
    """Whether a text begins and ends as a pattern does, where its first run is, and what follows the last.

    A pattern without a run is all beginning: the first run is where it ends then.
    """
    run = first
    while run < last and symbols[run] != RUN:
        run += 1
    if run == last:
        return size == last - first and _fits(symbols, first, last, text, 0), run, last
    tail = last
    while symbols[tail - 1] != RUN:
        tail -= 1
    fits = (
        size >= (run - first) + (last - tail)
        and _fits(symbols, first, run, text, 0)
        and _fits(symbols, tail, last, text, size - (last - tail))
    )
    return fits, run, tail


@leaf
def _stretch_end(symbols: Array, begin: int) -> int:
    """Where the stretch ends that begins somewhere before the last run."""
    stop = begin
    while symbols[stop] != RUN:
        stop += 1
    return stop


@outlined
def like(symbols: Array, first: int, last: int, text: Array, size: int) -> bool:
    """Whether a text matches the symbols of a pattern."""
    fits, run, tail = _ends_fit(symbols, first, last, text, size)
    at = run - first
    end = size - (last - tail)
    begin = run + 1
    while fits and begin < tail:
        stop = _stretch_end(symbols, begin)
        if stop > begin:
            at = _find(symbols, begin, stop, text, at, end) + (stop - begin)
            fits = at >= stop - begin
        begin = stop + 1
    return fits


@leaf
def like_short(symbols: Array, first: int, last: int, text: Array, size: int) -> bool:
    """The same, for short texts: nothing is allocated, but it may take the product of both lengths."""
    fits, run, tail = _ends_fit(symbols, first, last, text, size)
    at = run - first
    end = size - (last - tail)
    begin = run + 1
    while fits and begin < tail:
        stop = _stretch_end(symbols, begin)
        if stop > begin:
            at = _find_by_trying(symbols, begin, stop, text, at, end) + (stop - begin)
            fits = at >= stop - begin
        begin = stop + 1
    return fits


@kernel
def like_text(symbols: Array, arena: Array) -> bool:
    """Whether a string matches a pattern: for tests, and for looking at one filter."""
    text = np.empty(len(arena), np.int32)
    return like(symbols, 0, len(symbols), text, code_points(arena, 0, len(arena), text))
