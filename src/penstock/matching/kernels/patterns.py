"""Kernels for patterns on strings: all suffixes, substrings and LIKE patterns that a string matches.

The longest literal stretch of a pattern is its needle. All needles of a table form one Aho-Corasick
automaton over UTF-8 bytes, so that one pass over a string finds every needle in it; a suffix or substring
is decided by that, any other pattern is then verified. Verifying never backtracks far: stretches between
runs are found from left to right, by trying for short texts and by shift-and, 64 symbols of pattern at a
time, for long ones.
"""

from typing import NamedTuple

import numpy as np

from penstock.matching.kernels.jit import inlined, kernel, leaf
from penstock.matching.kernels.regex import REGEX, SCRATCH, finds
from penstock.matching.kernels.search import Array, count_below

SUFFIX = 0
SUBSTRING = 1
GENERAL = 2
"""How a pattern is decided once its needle has been found."""

KINDS = 3
FOLDED = 4
"""The bits of a kind that say how, and the one that says that the text is folded first."""

HAS_PLAIN = 1
HAS_FOLDED = 2
"""What patterns a slot has, those that know case and those that ignore it."""

ONE = -1
RUN = -2
"""Wildcards in the symbols of a general pattern; everything else is a code point."""

_TRYING_MAX = 4096
"""Up to so many comparisons a stretch is looked for by trying each place."""

_ONE64 = np.uint64(1)
_NO_BITS = np.uint64(0)


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
    folded: int,
    seen: Array,
    epoch: int,
    text: Array,
    letters: Array,
    slots: Array,
    masks: Array,
    bit_state: Array,
    found: Array,
    total: int,
) -> int:
    """Put the numbers of all patterns of the slot that the string matches into `found`, after those that are
    there already; how many these are then.

    These are either the patterns that know case, or, with `folded` = FOLDED, those that ignore it; the string
    is folded then.
    `seen` has a place for each node and holds no epoch yet that is `epoch`: each needle is looked at once
    however often it occurs, so that the cost is the string's length and the number of its needles. `text`
    has room for the string's code points and SCRATCH, where some pattern has to be verified.
    """
    size = -1
    node_now = 0
    end = start + length
    none = len(needle_patterns) - 2
    # One turn more than there are bytes, for the patterns that have no needle.
    for at in range(start, end + 1):
        node = 0
        if at < end:
            byte = arena[at]
            following = _child(edge_key, edge_child, node_now, byte)
            while following == 0 and node_now != 0:
                node_now = fail[node_now]
                following = _child(edge_key, edge_child, node_now, byte)
            node_now = following
            node = node_now if needle_at[node_now] >= 0 else link[node_now]
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
                kind = pattern_kind[p] & KINDS
                ok = at_end if kind == SUFFIX else fresh
                ok &= pattern_kind[p] & FOLDED == folded
                if ok and kind == GENERAL:
                    if size < 0:
                        size = code_points(arena, start, length, text)
                    ok = like(
                        symbols,
                        program_offsets[program[p]],
                        program_offsets[program[p] + 1],
                        text,
                        size,
                        letters,
                        slots,
                        masks,
                        bit_state,
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


class Search(NamedTuple):
    """What looking for a stretch in a long text needs; see `search_room`."""

    letters: Array
    slots: Array
    masks: Array
    state: Array


@kernel
def search_room(program_offsets: Array, symbols: Array) -> Search:
    """Room to look for the stretches of any of the programs."""
    longest = 0
    for p in range(len(program_offsets) - 1):
        if symbols[program_offsets[p]] != REGEX:
            longest = max(longest, program_offsets[p + 1] - program_offsets[p])
    size = 2
    while size < 2 * longest:
        size *= 2
    words = (longest + 63) >> 6
    return Search(
        np.empty(longest, np.int32),
        np.zeros(size, np.int32),
        np.zeros((longest + 1, words), np.uint64),
        np.empty(words, np.uint64),
    )


@inlined
def _slot_of_letter(letters: Array, slots: Array, letter: int) -> int:
    """Where a letter stands in a table of letters, or would stand."""
    mask = len(slots) - 1
    at = (np.int64(letter) * 0x9E3779B1 >> 8) & mask
    while slots[at] != 0 and letters[slots[at] - 1] != letter:
        at = (at + 1) & mask
    return at


@leaf
def _find(
    symbols: Array,
    first: int,
    last: int,
    text: Array,
    start: int,
    end: int,
    letters: Array,
    slots: Array,
    masks: Array,
    state: Array,
) -> int:
    """The same, in a time that depends on the length of the text alone, more or less.

    Shift-and: a bit for each place of the stretch, set while the text fits so far. `slots` is all zero before
    and after.
    """
    size = last - first
    if end - start < size:
        return -1
    if (end - start) * size <= _TRYING_MAX:
        return _find_by_trying(symbols, first, last, text, start, end)
    words = (size + 63) >> 6
    other = len(masks) - 1
    masks[other, :words] = _NO_BITS
    rows = 0
    for i in range(size):
        bit = _ONE64 << np.uint64(i & 63)
        row = other
        if symbols[first + i] != ONE:
            slot = _slot_of_letter(letters, slots, symbols[first + i])
            if slots[slot] == 0:
                letters[rows] = symbols[first + i]
                masks[rows, :words] = _NO_BITS
                rows += 1
                slots[slot] = rows
            row = np.int64(slots[slot]) - 1
        masks[row, i >> 6] |= bit
    for row in range(rows):
        for w in range(words):
            masks[row, w] |= masks[other, w]
    state[:words] = _NO_BITS
    last_bit = _ONE64 << np.uint64((size - 1) & 63)
    found = -1
    for at in range(start, end):
        row = np.int64(slots[_slot_of_letter(letters, slots, text[at])]) - 1
        if row < 0:
            row = other
        carry = _ONE64
        for w in range(words):
            moved = (state[w] << _ONE64) | carry
            carry = state[w] >> np.uint64(63)
            state[w] = moved & masks[row, w]
        if state[words - 1] & last_bit:
            found = at - size + 1
            break
    # From the last to the first: what was passed over when a letter was put in is still there.
    for row in range(rows - 1, -1, -1):
        slots[_slot_of_letter(letters, slots, letters[row])] = 0
    return found


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


@leaf
def like(
    symbols: Array,
    first: int,
    last: int,
    text: Array,
    size: int,
    letters: Array,
    slots: Array,
    masks: Array,
    state: Array,
) -> bool:
    """Whether a text matches the symbols of a pattern, or an expression is found in it."""
    if symbols[first] == REGEX:
        return finds(symbols, first, text, size)
    fits, run, tail = _ends_fit(symbols, first, last, text, size)
    at = run - first
    end = size - (last - tail)
    begin = run + 1
    while fits and begin < tail:
        stop = _stretch_end(symbols, begin)
        if stop > begin:
            place = _find(symbols, begin, stop, text, at, end, letters, slots, masks, state)
            fits = place >= 0
            at = place + (stop - begin)
        begin = stop + 1
    return fits


@leaf
def like_short(symbols: Array, first: int, last: int, text: Array, size: int) -> bool:
    """The same, for short texts: nothing is allocated, but it may take the product of both lengths."""
    if symbols[first] == REGEX:
        return finds(symbols, first, text, size)
    fits, run, tail = _ends_fit(symbols, first, last, text, size)
    at = run - first
    end = size - (last - tail)
    begin = run + 1
    while fits and begin < tail:
        stop = _stretch_end(symbols, begin)
        if stop > begin:
            place = _find_by_trying(symbols, begin, stop, text, at, end)
            fits = place >= 0
            at = place + (stop - begin)
        begin = stop + 1
    return fits


@kernel
def like_text(symbols: Array, arena: Array) -> bool:
    """Whether a string matches a pattern: for tests, and for looking at one filter."""
    text = np.empty(len(arena) + SCRATCH, np.int32)
    letters, slots, masks, state = search_room(np.array([0, len(symbols)]), symbols)
    size = code_points(arena, 0, len(arena), text)
    return like(symbols, 0, len(symbols), text, size, letters, slots, masks, state)
