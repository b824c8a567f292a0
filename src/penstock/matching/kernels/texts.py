"""The kernel that makes values of a column of texts, straight from Arrow's buffers.

A text that comes again is to be one value, so that the rest of matching sees it once. What came before is
remembered in a memo: buckets of `WAYS` places, a bucket being one line of the processor's cache. A text is
looked for in one bucket; where that is full, the newest takes the place of another, which becomes a value
once more when it comes again. So a column costs its length, whatever is in it.
"""

import numpy as np

from penstock.matching.kernels.jit import inlined, kernel
from penstock.matching.kernels.search import Array

WAYS = 4
"""Places of a bucket. A place has two words: a text's key, and the number of its value, from 1."""

NULL = -1
"""In place of the number of a value, where a row has none."""

TOO_LONG = -1
BROKEN = -2
"""What `encode_texts` returns where it gives up: a text is too long, or lies outside the column's bytes."""

_K1 = np.uint64(0x9E3779B97F4A7C15)
_K2 = np.uint64(0xC2B2AE3D27D4EB4F)
_SPREAD = np.uint64(29)
_ONE = np.uint64(1)
_BYTE = np.uint64(8)
_BITS = np.uint64(64)
_WORD = 8
_LAST_BYTE = np.uint64(56)
_LONG = np.uint64(0x80 << 56)


@inlined
def _word(data: Array, start: int) -> int:
    """Eight bytes as a word. Being unsigned, no place counts from the end: the compiler makes one load."""
    at = np.uint64(start)
    word = np.uint64(data[at])
    for i in range(1, _WORD):
        word |= np.uint64(data[at + np.uint64(i)]) << (_BYTE * np.uint64(i))
    return word


@inlined
def _short_key(data: Array, start: int, length: int) -> int:
    """The key of a text of less than eight bytes: these and the length, which decide it."""
    bits = _BYTE * np.uint64(length)
    if start + _WORD <= len(data):
        word = _word(data, start) & ((_ONE << bits) - _ONE)
    else:
        # Near the end of all bytes: eight that end with the text. In two steps, as 64 is too far for one.
        word = (_word(data, start + length - _WORD) >> (_LAST_BYTE - bits)) >> _BYTE
    return word | (np.uint64(length) << _LAST_BYTE)


@inlined
def _long_key(data: Array, start: int, length: int) -> int:
    """The key of a longer text: a hash, and never the key of a short one.

    The last word overlaps the one before, so that no byte stands alone.
    """
    h = np.uint64(length) * _K2
    last = start + length - _WORD
    at = start
    while at < last:
        h = (h ^ _word(data, at)) * _K1
        h ^= h >> _SPREAD
        at += _WORD
    h = (h ^ _word(data, last)) * _K1
    return (h ^ (h >> _SPREAD)) | _LONG


@inlined
def _same_long(data: Array, a: int, b: int, length: int) -> bool:
    """Whether two longer texts are equal."""
    last = length - _WORD
    at = 0
    while at < last:
        if _word(data, a + at) != _word(data, b + at):
            return False
        at += _WORD
    return _word(data, a + last) == _word(data, b + last)


@kernel
def encode_texts(
    offsets: Array,
    data: Array,
    valid: Array,
    valid_first: int,
    length_max: int,
    attribute: int,
    column: int,
    width: int,
    first: int,
    text_first: int,
    memo: Array,
    entries: Array,
    value_attribute: Array,
    value_start: Array,
    value_length: Array,
    arena: Array,
) -> tuple[int, int]:
    """Write the number of each row's value into a column of `entries`; values are added as need be.

    `data` has sixteen bytes at least; `entries` has `width` columns and is flat. `valid`: a bit for each row,
    from bit `valid_first` on; empty where no row is null. `first` and `text_first`: how many values there
    are, and bytes of theirs; returned is how many there are then, or what went wrong. The arrays have room
    for a value for each row.

    The memo, of two buckets at least, may hold what another column left there. It is known by its numbers:
    they are those of earlier values, and such a place is free.
    """
    rows = len(offsets) - 1
    if offsets[0] < 0:
        return BROKEN, text_first
    # The highest bits of a hash say which bucket.
    shift = _BITS
    size = 2 * WAYS
    while size < len(memo):
        size *= 2
        shift -= _ONE
    before = np.uint64(first)
    values = first
    out = np.uint64(column)
    for row in range(rows):
        start = np.int64(offsets[row])
        length = np.int64(offsets[row + 1]) - start
        # Nulls too have to be in order: else a text may lie outside, and there is no room for all.
        if length < 0 or start + length > len(data):
            return BROKEN, text_first
        if len(valid) > 0:
            bit = np.uint64(valid_first + row)
            if (valid[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7))) & np.uint8(1) == 0:
                entries[out] = NULL
                out += np.uint64(width)
                continue
        if length < _WORD:
            key = _short_key(data, start, length)
        elif length <= length_max:
            key = _long_key(data, start, length)
        else:
            return TOO_LONG, text_first
        bucket = ((key * _K1) >> shift) * np.uint64(2 * WAYS)
        at = bucket
        found = np.uint64(0)
        for _ in range(WAYS):
            number = memo[at + _ONE]
            if number <= before:
                break
            if memo[at] == key and (
                length < _WORD
                or (
                    value_length[number - _ONE] == length
                    and _same_long(data, value_start[number - _ONE], start, length)
                )
            ):
                found = number
                break
            at += np.uint64(2)
        if found == 0:
            if at == bucket + np.uint64(2 * WAYS):
                at = bucket + np.uint64(2 * (values & (WAYS - 1)))
            value_attribute[values] = attribute
            value_start[values] = start
            value_length[values] = length
            values += 1
            found = np.uint64(values)
            memo[at] = key
            memo[at + _ONE] = found
        entries[out] = np.int32(found - _ONE)
        out += np.uint64(width)
    # Not where they are found: that loop has better uses for the registers.
    text = text_first
    for value in range(first, values):
        start = value_start[value]
        value_start[value] = text
        for i in range(start, start + value_length[value]):
            arena[np.uint64(text)] = data[np.uint64(i)]
            text += 1
    return values, text
