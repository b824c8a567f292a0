"""Keys of 64 bits, which order the values of a family as these are ordered, for filters that came lately."""

import numpy as np

from penstock.matching.batch import DECIMAL, DOUBLE, INTEGER, LIST, NAN, STRING, TIME, Batch
from penstock.matching.kernels.jit import ZERO, inlined, kernel, leaf
from penstock.matching.kernels.search import Array, hash_bytes, key_of_bits, record_key

STRINGS = 3
"""The family of strings; bools are 0, numbers 1, times 2."""

NUMBERS = 1
BETWEEN = 4
"""What stands for the family of numbers where the key of a value does not say all about it."""

_NO_POINT = np.int64(2**63 - 1)
"""The key of no number."""

_EXACT_INTEGERS = 2**53
_LEAST = np.int64(-(2**63))
_SIGN_BIT = np.uint64(1 << 63)
_S8 = np.uint64(8)


@inlined
def family_of(state: int) -> int:
    """The family of a value, from 0; NaN and lists have none here."""
    if state == STRING:
        family = STRINGS
    elif state == INTEGER or state == DOUBLE or state == DECIMAL:
        family = 1
    elif state == TIME:
        family = 2
    elif state == NAN or state == LIST:
        family = -1
    else:
        family = 0
    return family


@inlined
def text_key(data: Array, start: int, length: int) -> int:
    """The first eight bytes of a string as a key; shorter strings are filled up with zeros."""
    word = np.uint64(0)
    if length >= 8:
        for i in range(8):
            word = (word << _S8) | np.uint64(data[start + i])
    else:
        for i in range(length):
            word = (word << _S8) | np.uint64(data[start + i])
        word <<= _S8 * np.uint64(8 - length) if length > 0 else np.uint64(0)
    return np.int64(word ^ _SIGN_BIT)


@inlined
def text_tail_key(data: Array, start: int, length: int) -> int:
    """The last eight bytes of a string, the last of all first."""
    word = np.uint64(0)
    end = start + length - 1
    count = min(length, 8)
    for i in range(count):
        word = (word << _S8) | np.uint64(data[end - i])
    if count > 0:
        word <<= _S8 * np.uint64(8 - count)
    return np.int64(word ^ _SIGN_BIT)


@kernel
def literal_keys(literals: Array, offsets: Array, first: int, last: int, keys: Array) -> None:
    """The keys of some literals."""
    for i in range(first, last):
        keys[i] = text_key(literals, offsets[i], offsets[i + 1] - offsets[i])


@leaf
def value_keys(
    value_attribute: Array,
    value_state: Array,
    value_bits: Array,
    value_length: Array,
    arena: Array,
    attributes: int,
    key: Array,
    low: Array,
    exact: Array,
    families: Array,
    tail: Array,
) -> None:
    """For each value the key that orders it, what numbers have beyond it, and what only equals share."""
    for v in range(len(value_state)):
        # Not only where the flags ask for it: they may do so a moment later, when filters are added.
        if value_attribute[v] >= attributes:
            continue
        state = value_state[v]
        bits = value_bits[v]
        low[v] = 0
        families[v] = family_of(state)
        if state == STRING:
            key[v] = text_key(arena, bits, value_length[v])
            tail[v] = text_tail_key(arena, bits, value_length[v])
            exact[v] = np.int64(hash_bytes(arena, bits, value_length[v]))
            continue
        if state == DOUBLE:
            # -0.0 has the bits of the least integer, and is 0.
            key[v] = np.int64(0) if bits == _LEAST else key_of_bits(bits)
        elif state == INTEGER:
            double = np.float64(bits)
            double_bits = double.view(np.int64)
            if bits > _EXACT_INTEGERS or bits < -_EXACT_INTEGERS:
                # The greatest double not above it, and what is left over.
                if double >= 9223372036854775808.0 or np.int64(double) > bits:
                    double_bits += -1 if double > 0 else 1
                low[v] = 2 * (bits - np.int64(np.int64(double_bits).view(np.float64)))
            key[v] = key_of_bits(double_bits)
        elif state == DECIMAL:
            key[v], low[v] = record_key(arena, bits)
        elif state == TIME:
            key[v] = bits
        else:
            key[v] = np.int64(state) - 2
        exact[v] = key[v]
        if low[v] != 0:
            exact[v] = _NO_POINT
            families[v] = BETWEEN


@kernel
def sample_keys(batch: Batch, keys: Array) -> None:
    """The key of each value of a sample; see `value_keys`."""
    _, _, _, value_attribute, value_state, value_bits, value_length, arena = batch
    low = np.empty(len(keys), np.int64)
    exact = np.empty(len(keys), np.int64)
    families = np.empty(len(keys), np.int8)
    tail = np.empty(len(keys), np.int64)
    every = ZERO + 2**62
    value_keys(
        value_attribute, value_state, value_bits, value_length, arena, every, keys, low, exact, families, tail
    )
