"""The kernel that turns values into codes: for each attribute, the number of the cell that a value lies in.

The cells of an attribute are numbered on one axis: 0 absent, 1 NaN, 2 false, 3 true, then the cells that
the filters' cuts make of the numbers, of the times and of the strings. Below the first cut of a family
lies one cell, and one starts at each cut. Every set of values that filters can ask for is then a set of
ranges of codes, whatever the family.
"""

from typing import NamedTuple

import numpy as np

from penstock.matching.batch import DOUBLE, INTEGER, STRING, TIME, Batch
from penstock.matching.kernels.jit import inlined, kernel, outlined
from penstock.matching.kernels.patterns import Automaton, Patterns, matching_patterns
from penstock.matching.kernels.search import (
    Array,
    count_below,
    count_to,
    find_string,
    is_before,
    key_of_bits,
)

NUMBERS = 4
"""The code of the first cell of numbers."""

_EXACT = 2**53
_LEAST = np.int64(-(2**63))


class Cells(NamedTuple):
    """The cuts of every slot (an attribute that filters name), sorted, and the literals of strings."""

    number_offsets: Array
    number_high: Array
    number_low: Array
    """What large integers have beyond a double; empty where no cut has anything."""
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


@outlined
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
        time_offsets,
        time_key,
        string_offsets,
        string_key,
        string_ordered,
        literals,
        literal_offsets,
        literal_hash,
    ) = cells
    slot_has_patterns = patterns.slot_has
    values = len(value_state)
    codes = np.zeros(values, np.int32)
    has_patterns = len(patterns.slot) > 0
    offsets = np.zeros(values + 1 if has_patterns else 0, np.int64)
    numbers = np.empty(64 if has_patterns else 0, np.int32)
    found = np.empty(len(patterns.slot), np.int32)
    # Any string that no filter names will do where order says nothing; one not below the empty string.
    some_string = 2 if len(literal_offsets) > 1 and literal_offsets[1] == 0 else 0
    total = 0
    for v in range(values):
        if has_patterns:
            offsets[v + 1] = total
        slot = slot_of[value_attribute[v]]
        if slot < 0:
            continue
        state = value_state[v]
        value = value_bits[v]
        if state == STRING:
            length = value_length[v]
            literal = find_string(literals, literal_offsets, literal_hash, arena, value, length)
            if literal >= 0:
                bound = 2 * literal + 1
            elif string_ordered[slot]:
                bound = 2 * _literals_before(literals, literal_offsets, arena, value, length)
            else:
                bound = some_string
            below = count_below(string_key, string_offsets[slot], string_offsets[slot + 1], bound)
            codes[v] = strings_start(number_offsets, time_offsets, slot) + below
            if has_patterns and slot_has_patterns[slot]:
                epoch += 1
                count = matching_patterns(automaton, patterns, slot, arena, value, length, seen, epoch, found)
                if total + count > len(numbers):
                    grown = np.empty(2 * (total + count), np.int32)
                    grown[:total] = numbers[:total]
                    numbers = grown
                for i in range(count):
                    numbers[total + i] = found[i]
                total += count
                offsets[v + 1] = total
        elif state == INTEGER or state == DOUBLE:
            low = np.int64(0)
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
                low = value - np.int64(np.int64(bits).view(np.float64))
            codes[v] = _number_code(number_offsets, number_high, number_low, slot, high, low)
        elif state == TIME:
            first = time_offsets[slot]
            below = count_to(time_key, first, time_offsets[slot + 1], value)
            codes[v] = times_start(number_offsets, slot) + below
        else:
            codes[v] = state
    return codes, offsets, numbers, epoch
