"""The kernel that turns values into codes: for each attribute, the number of the cell that a value lies in.

The cells of an attribute are numbered on one axis: 0 absent, 1 NaN, 2 false, 3 true, then the cells that
the filters' cuts make of the numbers, of the times and of the strings. Below the first cut of a family
lies one cell, and one starts at each cut. Every set of values that filters can ask for is then a set of
ranges of codes, whatever the family.
"""

from typing import NamedTuple

import numpy as np

from penstock.matching.batch import DECIMAL, DOUBLE, INTEGER, LIST, STRING, TIME, Batch
from penstock.matching.kernels.folding import fold_bytes
from penstock.matching.kernels.jit import ZERO, inlined, kernel, leaf
from penstock.matching.kernels.patterns import (
    FOLDED,
    HAS_FOLDED,
    HAS_PLAIN,
    Automaton,
    Patterns,
    matching_patterns,
    search_room,
)
from penstock.matching.kernels.regex import SCRATCH
from penstock.matching.kernels.search import (
    Array,
    count_below,
    count_to,
    find_string,
    hash_bytes,
    is_before,
    key_of_bits,
    record_key,
    same_bytes,
)

LISTS = 4
"""The code of a list, which is of no family to a table; bools end here."""

NUMBERS = 5
"""The code of the first cell of numbers."""

_EXACT = 2**53
_LEAST = np.int64(-(2**63))
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

_MEMO = 8192
"""Strings of a batch that are remembered, to be looked up once."""


class Cells(NamedTuple):
    """The cuts of every slot (an attribute that filters name), sorted, and the literals of strings."""

    number_offsets: Array
    number_high: Array
    number_low: Array
    """Twice what large integers have beyond a double, and 1 more just after; empty where all are 0."""
    integer_first: Array
    integer_offsets: Array
    integer_codes: Array
    """For slots whose cuts lie among few integers: the first of these, and the code of each."""
    time_offsets: Array
    time_key: Array
    string_offsets: Array
    string_key: Array
    """Twice the rank of a literal; one more where the cut is just after it."""
    string_ordered: Array
    """Whether the slot tells apart strings that are no literals."""
    literals: Array
    literal_offsets: Array
    literal_hash: Array


@inlined
def _number_code(offsets: Array, high_keys: Array, low_keys: Array, slot: int, high: int, low: int) -> int:
    first = offsets[slot]
    last = offsets[slot + 1]
    if len(low_keys) == 0:
        return NUMBERS + count_to(high_keys, first, last, high)
    at = first + count_below(high_keys, first, last, high)
    while at < last and high_keys[at] == high and low_keys[at] <= low:
        at += 1
    return NUMBERS + at - first


@inlined
def times_start(number_offsets: Array, slot: int) -> int:
    """The code of the first cell of times."""
    return NUMBERS + 1 + number_offsets[slot + 1] - number_offsets[slot]


@inlined
def strings_start(number_offsets: Array, time_offsets: Array, slot: int) -> int:
    """The code of the first cell of strings."""
    return times_start(number_offsets, slot) + 1 + time_offsets[slot + 1] - time_offsets[slot]


@leaf
def _literals_before(literals: Array, offsets: Array, arena: Array, start: int, length: int) -> int:
    """How many literals come before a string that is none of them."""
    low = 0
    high = len(offsets) - 1
    while low < high:
        middle = (low + high) >> 1
        begin = offsets[middle]
        if is_before(literals, begin, offsets[middle + 1] - begin, arena, start, length):
            low = middle + 1
        else:
            high = middle
    return low


@leaf
def _resolve_values(
    first_value: int,
    total: int,
    epoch: int,
    value_attribute: Array,
    value_state: Array,
    value_bits: Array,
    value_length: Array,
    arena: Array,
    slot_of: Array,
    number_offsets: Array,
    number_high: Array,
    number_low: Array,
    integer_first: Array,
    integer_offsets: Array,
    integer_codes: Array,
    time_offsets: Array,
    time_key: Array,
    string_offsets: Array,
    string_key: Array,
    string_ordered: Array,
    literals: Array,
    literal_offsets: Array,
    literal_hash: Array,
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
    slot_has_patterns: Array,
    seen: Array,
    folded: Array,
    text: Array,
    letters: Array,
    slots: Array,
    masks: Array,
    bit_state: Array,
    found: Array,
    memo: Array,
    codes: Array,
    offsets: Array,
    numbers: Array,
) -> tuple[int, int, int, int]:
    """Resolve values until all are done, or there is not enough room for the patterns of one.

    Returned are the value that comes next, how many patterns there are so far, the last epoch, and how much
    room for patterns is needed. Nothing is allocated here.
    """
    has_patterns = len(pattern_slot) > 0
    # Any string that no filter names will do where order says nothing; one not below the empty string.
    some_string = 2 if len(literal_offsets) > 1 and literal_offsets[1] == 0 else 0
    for v in range(first_value, len(value_state)):
        if has_patterns:
            offsets[v + 1] = total
        slot = slot_of[value_attribute[v]]
        if slot < 0:
            continue
        state = value_state[v]
        value = value_bits[v]
        if state == STRING:
            length = value_length[v]
            # A string that came before, lately, under the same attribute?
            at = np.int64(
                (hash_bytes(arena, value, length) + np.uint64(slot) * _SPREAD) & np.uint64(len(memo) - 1)
            )
            known = np.int64(memo[at]) - 1
            if (
                known >= 0
                and value_length[known] == length
                and value_attribute[known] == value_attribute[v]
                and same_bytes(arena, value_bits[known], arena, value, length)
            ):
                codes[v] = codes[known]
                if has_patterns:
                    count = offsets[known + 1] - offsets[known]
                    if total + count > len(numbers):
                        return v, total, epoch, total + count
                    for i in range(count):
                        numbers[total + i] = numbers[offsets[known] + i]
                    total += count
                    offsets[v + 1] = total
                continue
            literal = find_string(literals, literal_offsets, literal_hash, arena, value, length)
            if literal >= 0:
                bound = 2 * literal + 1
            elif string_ordered[slot]:
                bound = 2 * _literals_before(literals, literal_offsets, arena, value, length)
            else:
                bound = some_string
            below = count_below(string_key, string_offsets[slot], string_offsets[slot + 1], bound)
            codes[v] = strings_start(number_offsets, time_offsets, slot) + below
            has = slot_has_patterns[slot] if has_patterns else 0
            count = 0
            for turn in (HAS_PLAIN, HAS_FOLDED):
                if has & turn == 0:
                    continue
                data, begin, size = arena, np.int64(value), np.int64(length)
                if turn == HAS_FOLDED:
                    data, begin, size = (
                        folded,
                        np.int64(0),
                        np.int64(fold_bytes(arena, value, length, folded)),
                    )
                epoch += 1
                count = matching_patterns(
                    edge_key,
                    edge_child,
                    fail,
                    needle_at,
                    link,
                    needle_patterns,
                    pattern_slot,
                    pattern_kind,
                    program,
                    program_offsets,
                    symbols,
                    slot,
                    data,
                    begin,
                    size,
                    FOLDED if turn == HAS_FOLDED else 0,
                    seen,
                    epoch,
                    text,
                    letters,
                    slots,
                    masks,
                    bit_state,
                    found,
                    count,
                )
            if has:
                if total + count > len(numbers):
                    return v, total, epoch, total + count
                for i in range(count):
                    numbers[total + i] = found[i]
                total += count
                offsets[v + 1] = total
            memo[at] = v + 1
        elif state == INTEGER or state == DOUBLE:
            low = np.int64(0)
            integer = value
            if state == DOUBLE:
                double = np.int64(value).view(np.float64)
                integer = _LEAST
                if -_EXACT <= double <= _EXACT and np.float64(np.int64(double)) == double:
                    integer = np.int64(double)
            first = integer_offsets[slot]
            # Beyond both ends this wraps around to something large.
            past = np.uint64(integer) - np.uint64(integer_first[slot])
            if past < np.uint64(integer_offsets[slot + 1] - first):
                codes[v] = integer_codes[first + np.int64(past)]
                continue
            if state == DOUBLE:
                # -0.0 has the bits of the least integer, and is 0.
                high = np.int64(0) if value == _LEAST else key_of_bits(value)
            elif -_EXACT <= value <= _EXACT:
                high = key_of_bits(np.float64(value).view(np.int64))
            else:
                # The greatest double not above it, and what is left over.
                double = np.float64(value)
                bits = double.view(np.int64)
                if double >= 9223372036854775808.0 or np.int64(double) > value:
                    bits += -1 if double > 0 else 1
                high = key_of_bits(bits)
                low = 2 * (value - np.int64(np.int64(bits).view(np.float64)))
            codes[v] = _number_code(number_offsets, number_high, number_low, slot, high, low)
        elif state == TIME:
            first = time_offsets[slot]
            below = count_to(time_key, first, time_offsets[slot + 1], value)
            codes[v] = times_start(number_offsets, slot) + below
        elif state == LIST:
            codes[v] = LISTS
        elif state == DECIMAL:
            high, low = record_key(arena, value)
            codes[v] = _number_code(number_offsets, number_high, number_low, slot, high, low)
        else:
            codes[v] = state
    return len(value_state), total, epoch, 0


@kernel
def resolve(
    batch: Batch,
    slot_of: Array,
    cells: Cells,
    automaton: Automaton,
    patterns: Patterns,
    seen: Array,
    epoch: int,
) -> tuple[Array, Array, Array, int]:
    """The code of each value of a batch (0: its attribute is in no filter), and the patterns it matches.

    Patterns come as offsets and numbers, empty where the table has none; `epoch` is counted on in `seen`
    and returned.
    """
    _, _, _, value_attribute, value_state, value_bits, value_length, arena = batch
    (
        number_offsets,
        number_high,
        number_low,
        integer_first,
        integer_offsets,
        integer_codes,
        time_offsets,
        time_key,
        string_offsets,
        string_key,
        string_ordered,
        literals,
        literal_offsets,
        literal_hash,
    ) = cells
    edge_key, edge_child, fail, needle_at, link = automaton
    (
        needle_patterns,
        pattern_slot,
        pattern_kind,
        program,
        program_offsets,
        symbols,
        slot_has_patterns,
    ) = patterns
    values = len(value_state)
    codes = np.zeros(values, np.int32)
    has_patterns = len(pattern_slot) > 0
    offsets = np.zeros(values + 1 if has_patterns else 0, np.int64)
    numbers = np.empty(64 + values if has_patterns else 0, np.int32)
    found = np.empty(len(pattern_slot), np.int32)
    longest = 0
    if has_patterns:
        for v in range(values):
            longest = max(longest, value_length[v])
    text = np.empty(longest + SCRATCH, np.int32)
    folded = np.empty(2 * longest, np.uint8)
    letters, slots, masks, bit_state = search_room(program_offsets, symbols)
    size = 16
    while size < values and size < _MEMO:
        size *= 2
    memo = np.zeros(size, np.int32)
    value = ZERO
    total = ZERO
    while value < values:
        value, total, epoch, room = _resolve_values(
            value,
            total,
            epoch,
            value_attribute,
            value_state,
            value_bits,
            value_length,
            arena,
            slot_of,
            number_offsets,
            number_high,
            number_low,
            integer_first,
            integer_offsets,
            integer_codes,
            time_offsets,
            time_key,
            string_offsets,
            string_key,
            string_ordered,
            literals,
            literal_offsets,
            literal_hash,
            edge_key,
            edge_child,
            fail,
            needle_at,
            link,
            needle_patterns,
            pattern_slot,
            pattern_kind,
            program,
            program_offsets,
            symbols,
            slot_has_patterns,
            seen,
            folded,
            text,
            letters,
            slots,
            masks,
            bit_state,
            found,
            memo,
            codes,
            offsets,
            numbers,
        )
        if room > 0:
            grown = np.empty(2 * room, np.int32)
            grown[:total] = numbers[:total]
            numbers = grown
    return codes, offsets, numbers, epoch
