"""Words: a condition in 64 bits, as filters are compiled into them and tested by them."""

from typing import NamedTuple

import numpy as np

from penstock.matching.kernels.jit import inlined
from penstock.matching.kernels.search import Array

TRUE_WORD = np.uint64(0)
"""What holds always: the head of a filter that has no condition. No range is from 0 to 0."""

RANGE = 0
SET = 1
PATTERN = 2
NOT_PATTERN = 3
"""The kinds of condition, in the two highest bits of a word."""

SLOT_BITS = 18
CODE_BITS = 22
"""A range has its slot and both ends in one word (ends the wrong way round, or the same, stand for all values
of the family but these); a set its slot and the number of its toggles. A range whose
codes do not fit is a set."""

KIND_SHIFT = np.uint64(62)
SLOT_SHIFT = np.uint64(2 * CODE_BITS)
SLOT_MASK = np.uint64((1 << SLOT_BITS) - 1)
CODE_SHIFT = np.uint64(CODE_BITS)
CODE_MASK = np.uint64((1 << CODE_BITS) - 1)
REST_MASK = np.uint64((1 << 62) - 1)
HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)


class Draft(NamedTuple):
    """Filters before they have their places: words in the order of the columns, sets apart from them."""

    ids: Array
    word_offsets: Array
    words: Array
    set_slot: Array
    set_offsets: Array
    set_codes: Array


@inlined
def word_slot(set_slot: Array, word: int) -> int:
    """The slot of a range or set."""
    if word >> KIND_SHIFT == RANGE:
        slot = np.int64((word >> SLOT_SHIFT) & SLOT_MASK)
    else:
        slot = np.int64(set_slot[np.int64(word & REST_MASK)])
    return slot


@inlined
def word_low(set_offsets: Array, set_codes: Array, word: int) -> int:
    """The first code of a range or set."""
    if word >> KIND_SHIFT == RANGE:
        low = np.int64((word >> CODE_SHIFT) & CODE_MASK)
    else:
        low = np.int64(set_codes[set_offsets[np.int64(word & REST_MASK)]])
    return low


@inlined
def word_high(set_offsets: Array, set_codes: Array, word: int) -> int:
    """One more than the last code of a range or set."""
    if word >> KIND_SHIFT == RANGE:
        high = np.int64(word & CODE_MASK)
    else:
        high = np.int64(set_codes[set_offsets[np.int64(word & REST_MASK) + 1] - 1])
    return high
