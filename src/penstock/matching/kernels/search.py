"""Small kernels that others are made of: hashing and comparing bytes, binary search, keys of numbers."""

from typing import Any

import numpy as np

from penstock.matching.kernels.jit import inlined, kernel

Array = Any
"""A NumPy array as kernels see it."""

_K1 = np.uint64(0x9E3779B97F4A7C15)
_K2 = np.uint64(0xC2B2AE3D27D4EB4F)
_S8 = np.uint64(8)
_S29 = np.uint64(29)
_S32 = np.uint64(32)
_ONE = np.uint64(1)
_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_EXACT = 2**53


@inlined
def read_word(data: Array, at: int) -> Any:
    """Eight bytes as a word; written so that the compiler makes one load of it."""
    word = np.uint64(data[at])
    for i in range(1, 8):
        word |= np.uint64(data[at + i]) << (_S8 * np.uint64(i))
    return word


@inlined
def hash_bytes(data: Array, start: int, length: int) -> Any:
    """A 64-bit hash of some bytes."""
    h = np.uint64(length) * _K2 + _K1
    at = start
    end = start + length
    while at + 8 <= end:
        h = (h ^ read_word(data, at)) * _K1
        h ^= h >> _S29
        at += 8
    word = np.uint64(0)
    while at < end:
        word = (word << _S8) | np.uint64(data[at])
        at += 1
    h = (h ^ word) * _K2
    h ^= h >> _S32
    h *= _K1
    return h ^ (h >> _S29)


@inlined
def same_bytes(a: Array, a_start: int, b: Array, b_start: int, length: int) -> bool:
    """Whether two stretches of bytes are equal."""
    at = 0
    while at + 8 <= length:
        if read_word(a, a_start + at) != read_word(b, b_start + at):
            return False
        at += 8
    while at < length:
        if a[a_start + at] != b[b_start + at]:
            return False
        at += 1
    return True


@inlined
def is_before(a: Array, a_start: int, a_length: int, b: Array, b_start: int, b_length: int) -> bool:
    """Whether one string of bytes comes before another; for UTF-8 that is the order of code points."""
    shorter = min(a_length, b_length)
    for i in range(shorter):
        x = a[a_start + i]
        y = b[b_start + i]
        if x != y:
            return x < y
    return a_length < b_length


@inlined
def count_below(keys: Array, start: int, end: int, key: int) -> int:
    """How many of the sorted keys from `start` to `end` are below `key`; without branches to guess."""
    length = end - start
    base = start
    while length > 1:
        half = length >> 1
        base += half if keys[base + half - 1] < key else 0
        length -= half
    if length == 1 and keys[base] < key:
        base += 1
    return base - start


@inlined
def count_to(keys: Array, start: int, end: int, key: int) -> int:
    """How many of the sorted keys from `start` to `end` are at most `key`."""
    length = end - start
    base = start
    while length > 1:
        half = length >> 1
        base += half if keys[base + half - 1] <= key else 0
        length -= half
    if length == 1 and keys[base] <= key:
        base += 1
    return base - start


@inlined
def is_gone(gone: Array, f: int) -> int:
    """1 if the bit of a filter is set, otherwise 0."""
    return np.int64((gone[f >> 6] >> np.uint64(f & 63)) & _ONE)


@inlined
def key_of_bits(bits: int) -> int:
    """The bits of a double (not NaN, not -0.0) as an integer that orders the same way."""
    return bits if bits >= 0 else bits ^ _SIGN


@inlined
def record_key(arena: Array, at: int) -> tuple[int, int]:
    """The key of the gap that a decimal lies in, from its record (`penstock.matching.decimals`)."""
    low = np.int64(arena[at + 8]) | (np.int64(arena[at + 9]) << 8)
    return np.int64(read_word(arena, at)), low


@kernel
def keys_of_integers(values: Array, high: Array, low: Array) -> None:
    """Each integer as the key of the greatest double not above it, and twice what is left over.

    What lies just after a number, between it and the next, has a number more in `low`.
    """
    double = np.empty(1, np.float64)
    bits = double.view(np.int64)
    for i in range(len(values)):
        value = values[i]
        double[0] = value
        if value > _EXACT or value < -_EXACT:
            # The nearest double may lie above; step down to the one below. 2**63 is no int64.
            if double[0] >= 9223372036854775808.0 or np.int64(double[0]) > value:
                bits[0] += -1 if double[0] > 0 else 1
            low[i] = 2 * (value - np.int64(double[0]))
        else:
            low[i] = 0
        high[i] = key_of_bits(bits[0])


@kernel
def build_hash(data: Array, offsets: Array, slots: Array) -> None:
    """Fill an open-addressing table with the numbers, from 1, of distinct strings."""
    mask = np.uint64(len(slots) - 1)
    for i in range(len(offsets) - 1):
        at = hash_bytes(data, offsets[i], offsets[i + 1] - offsets[i]) & mask
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = i + 1


@inlined
def find_string(data: Array, offsets: Array, slots: Array, text: Array, start: int, length: int) -> int:
    """The number, from 0, of a string in a table made by `build_hash`, or -1."""
    mask = np.uint64(len(slots) - 1)
    at = hash_bytes(text, start, length) & mask
    while True:
        found = slots[at]
        if found == 0:
            return -1
        begin = offsets[found - 1]
        if offsets[found] - begin == length and same_bytes(data, begin, text, start, length):
            return found - 1  # type: ignore[no-any-return]
        at = (at + np.uint64(1)) & mask
