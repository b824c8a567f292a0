"""Texts and values in the bytes of an event: each is checked, and written into the table of a batch.

The form is that of `penstock.model.packed`. A place is read before it is known to be within its event, and
what was read is then thrown away: text ends in padding, so that this is harmless.
"""

from typing import Final

import numpy as np

from penstock.matching.batch import DOUBLE, FALSE, INTEGER, LIST, NAN, STRING, TIME, TRUE
from penstock.matching.kernels.jit import inlined, outlined
from penstock.matching.kernels.json_blocks import (
    BLOCK,
    FAILED,
    Bytes,
    beyond_ascii,
    high_word_at,
    lowest_bit,
    widened,
)
from penstock.matching.kernels.json_values import Table
from penstock.model.limits import (
    ATTRIBUTES_MAX,
    DECIMAL_DIGITS_MAX,
    DECIMAL_PLACES_MAX,
    DECIMAL_WHOLE_MAX,
    ELEMENTS_MAX,
    NAME_LENGTH_MAX,
    NESTING_MAX,
    STRING_LENGTH_MAX,
)
from penstock.model.packed import DECIMAL_BYTES_MAX, DECIMAL_CODE, TIME_BYTES, TIME_CODE

_POSITIVE_LAST: Final = 0x7F
_MAP, _MAP_LAST, _MAP_16, _MAP_32 = 0x80, 0x8F, 0xDE, 0xDF
_ARRAY, _ARRAY_LAST, _ARRAY_16, _ARRAY_32 = 0x90, 0x9F, 0xDC, 0xDD
_TEXT, _TEXT_LAST = 0xA0, 0xBF
_FALSE, _TRUE = 0xC2, 0xC3
_EXTENSION_8, _EXTENSION_16, _EXTENSION_32 = 0xC7, 0xC8, 0xC9
_SINGLE, _DOUBLE = 0xCA, 0xCB
_UNSIGNED_8, _UNSIGNED_64 = 0xCC, 0xCF
_SIGNED_8, _SIGNED_64 = 0xD0, 0xD3
_EXTENSION_OF_1, _EXTENSION_OF_16 = 0xD4, 0xD8
_TEXT_8, _TEXT_16, _TEXT_32 = 0xD9, 0xDA, 0xDB
_NEGATIVE: Final = 0xE0

PACKED_DECIMAL: Final = 18
"""The state of a decimal whose text was checked, and that Python reads."""

_MINUS, _E, _ZERO, _NINE = 0x2D, 0x65, 0x30, 0x39

_WITHOUT_SIGN: Final = 2**63 - 1
_INFINITY: Final = 0x7FF0_0000_0000_0000

_CHARACTER_BYTES_MAX: Final = 4


@outlined
def _continuation(text: Bytes, at: int) -> int:
    """How many bytes follow this one in its character, which is beyond ASCII; FAILED where it is none.

    That leaves no longer form of a character than need be, no surrogates, and nothing above U+10FFFF.
    """
    first, second = text[at], text[at + 1]
    low, high = 0x80, 0xBF
    if 0xC2 <= first <= 0xDF:
        count = 1
    elif 0xE0 <= first <= 0xEF:
        count = 2
        low = 0xA0 if first == 0xE0 else 0x80
        high = 0x9F if first == 0xED else 0xBF
    elif 0xF0 <= first <= 0xF4:
        count = 3
        low = 0x90 if first == 0xF0 else 0x80
        high = 0x8F if first == 0xF4 else 0xBF
    else:
        return FAILED
    if second < low or second > high:
        return FAILED
    for place in range(at + 2, at + 1 + count):
        if text[place] < 0x80 or text[place] > 0xBF:
            return FAILED
    return count


@outlined
def _characters(text: Bytes, at: int, stop: int) -> int:
    """How many characters the text from here to there has; FAILED where it is not UTF-8."""
    count = stop - at
    while at < stop:
        bits = beyond_ascii(text, at)
        if bits == 0:
            at += BLOCK
            continue
        at += lowest_bit(bits)
        if at >= stop:
            break
        more = _continuation(text, at)
        at += more + 1
        if more < 0 or at > stop:
            return FAILED
        count -= more
    return count


@inlined
def is_text(text: Bytes, at: int, stop: int, longest: int) -> bool:
    """Whether from here to there is UTF-8 of at most so many characters."""
    length = stop - at
    if length <= BLOCK and beyond_ascii(text, at) & ((1 << length) - 1) == 0:
        return bool(length <= longest)
    return bool(length <= longest * _CHARACTER_BYTES_MAX and 0 <= _characters(text, at, stop) <= longest)


@inlined
def find_text(text: Bytes, at: int) -> tuple[int, int]:
    """Where the text that is said to be here starts and ends; FAILED where there is none."""
    head = text[at]
    if _TEXT <= head <= _TEXT_LAST:
        return at + 1, at + 1 + (head - _TEXT)
    word = high_word_at(text, at + 1)
    if head == _TEXT_8:
        return at + 2, at + 2 + (word >> 56 & 0xFF)
    if head == _TEXT_16:
        return at + 3, at + 3 + (word >> 48 & 0xFFFF)
    if head == _TEXT_32:
        return at + 5, at + 5 + (word >> 32 & 0xFFFF_FFFF)
    return FAILED, FAILED


@outlined
def _read_string(text: Bytes, at: int, stop: int, place: int, table: Table) -> int:
    begin, end = find_text(text, at)
    if begin < 0 or end > stop or not is_text(text, begin, end, STRING_LENGTH_MAX):
        return FAILED
    _attribute, states, bits, lengths = table
    states[place] = STRING
    bits[place] = begin
    lengths[place] = end - begin
    return end


@outlined
def _read_number(text: Bytes, at: int, place: int, table: Table) -> int:
    """Read a number that is not in its first byte alone."""
    _attribute, states, bits, _lengths = table
    head = text[at]
    word = high_word_at(text, at + 1)
    if head == _DOUBLE or head == _SINGLE:
        double = word if head == _DOUBLE else widened(word >> 32)
        is_nan = double & _WITHOUT_SIGN > _INFINITY
        states[place] = NAN if is_nan else DOUBLE
        bits[place] = 0 if is_nan else double
        return at + (9 if head == _DOUBLE else 5)
    size = 1 << (head & 3)
    number = word >> (64 - 8 * size)
    if head <= _UNSIGNED_64 and number < 0:
        if size == 8:
            return FAILED
        number += 1 << 8 * size
    states[place] = INTEGER
    bits[place] = number
    return at + 1 + size


@outlined
def _is_decimal(text: Bytes, at: int, stop: int) -> bool:
    """Whether from here to there is the text of a decimal, within its limits."""
    if text[at] == _MINUS:
        at += 1
    first = at
    while at < stop and _ZERO <= text[at] <= _NINE:
        at += 1
    digits = at - first
    if digits < 1 or digits > DECIMAL_DIGITS_MAX or text[first] == _ZERO or at >= stop or text[at] != _E:
        return False
    at += 1
    sign = 1
    if at < stop and text[at] == _MINUS:
        sign = -1
        at += 1
    if at >= stop or stop - at > 3:
        return False
    exponent = 0
    while at < stop:
        if text[at] < _ZERO or text[at] > _NINE:
            return False
        exponent = 10 * exponent + (text[at] - _ZERO)
        at += 1
    exponent *= sign
    return bool(exponent >= -DECIMAL_PLACES_MAX and digits + exponent <= DECIMAL_WHOLE_MAX)


@outlined
def _read_extension(text: Bytes, at: int, stop: int, place: int, table: Table) -> int:
    """Read a time or a decimal."""
    _attribute, states, bits, lengths = table
    head = text[at]
    code = at + 1
    if head >= _EXTENSION_OF_1:
        length = 1 << (head - _EXTENSION_OF_1)
    else:
        word = high_word_at(text, code)
        size = 1 << (head - _EXTENSION_8)
        length = word >> (64 - 8 * size) & 0xFFFF_FFFF
        code += size
    begin = code + 1
    if text[code] == TIME_CODE and length == TIME_BYTES:
        states[place] = TIME
        bits[place] = high_word_at(text, begin)
        return begin + TIME_BYTES
    if text[code] == DECIMAL_CODE and length <= DECIMAL_BYTES_MAX and begin + length <= stop:
        if not _is_decimal(text, begin, begin + length):
            return FAILED
        states[place] = PACKED_DECIMAL
        bits[place] = begin
        lengths[place] = length
        return begin + length
    return FAILED


@inlined
def read_value(text: Bytes, at: int, stop: int, place: int, table: Table) -> int:
    """Check the value that starts here and write it to its place in the table; return its end.

    That is FAILED where it is no value that an event can have, or ends beyond the event.
    """
    end = _read_scalar(text, at, stop, place, table)
    # Lists come last: most events have none.
    return end if end >= 0 or _count_of_list(text, at) < 0 else _read_list(text, at, stop, place, table)


@inlined
def _said_count(text: Bytes, at: int, few: int, few_last: int, head_16: int, head_32: int) -> int:
    """How many members are said by a head of one of these forms; FAILED where it has another."""
    head = text[at]
    if few <= head <= few_last:
        return head - few
    if head == head_16:
        return high_word_at(text, at + 1) >> 48 & 0xFFFF
    if head == head_32:
        return high_word_at(text, at + 1) >> 32 & 0xFFFF_FFFF
    return FAILED


@inlined
def _count_of_list(text: Bytes, at: int) -> int:
    """How many elements the list that starts here is said to have; FAILED where none does."""
    return _said_count(text, at, _ARRAY, _ARRAY_LAST, _ARRAY_16, _ARRAY_32)


@inlined
def _count_of_map(text: Bytes, at: int) -> int:
    """How many attributes the record that starts here is said to have; FAILED where none does."""
    return _said_count(text, at, _MAP, _MAP_LAST, _MAP_16, _MAP_32)


@inlined
def _after_count(text: Bytes, at: int) -> int:
    """Where the elements of a list, or the attributes of a record, start."""
    head = text[at]
    if head == _ARRAY_16 or head == _MAP_16:
        return at + 3
    return at + 5 if head == _ARRAY_32 or head == _MAP_32 else at + 1


@outlined
def _read_list(text: Bytes, at: int, stop: int, place: int, table: Table) -> int:
    """Check a list and all that is in it; write where it stands, from its head on.

    What is open, lists and records one in the other, stands on a stack: how many elements or attributes are
    still to come, and for a record its complement.
    """
    begin = at
    left = np.empty(2 * NESTING_MAX + 3, np.int64)
    depth = -1
    lists = -1
    while True:
        head = at
        count = _count_of_list(text, at)
        if count >= 0:
            lists += 1
            if count == 0 or count > ELEMENTS_MAX or lists > NESTING_MAX:
                return FAILED
            at = _after_count(text, at)
            depth += 1
            left[depth] = count
        elif left[depth] >= 0 and _count_of_map(text, at) >= 0:
            count = _count_of_map(text, at)
            if count > ATTRIBUTES_MAX:
                return FAILED
            at = _after_count(text, head)
            left[depth] -= 1
            depth += 1
            left[depth] = ~count
        else:
            at = _read_scalar(text, at, stop, place, table)
            if at < 0:
                return FAILED
            left[depth] += -1 if left[depth] >= 0 else 1
        # Leave what has come to its end.
        while depth >= 0 and (left[depth] == 0 or left[depth] == -1):
            is_list = left[depth] == 0
            depth -= 1
            if is_list:
                lists -= 1
                if depth >= 0:
                    left[depth] += -1 if left[depth] >= 0 else 1
        if at > stop:
            return FAILED
        if depth < 0:
            break
        if left[depth] < 0:
            name, end = find_text(text, at)
            if name < 0 or end == name or end > stop or not is_text(text, name, end, NAME_LENGTH_MAX):
                return FAILED
            at = end
        if at >= stop:
            return FAILED
    _attribute, states, bits, lengths = table
    states[place] = LIST
    bits[place] = begin
    lengths[place] = at - begin
    return at


@inlined
def _read_scalar(text: Bytes, at: int, stop: int, place: int, table: Table) -> int:
    """Check the value that starts here and is no list, and write it; return its end, or FAILED."""
    _attribute, states, bits, lengths = table
    head = text[at]
    if _TEXT <= head <= _TEXT_LAST or _TEXT_8 <= head <= _TEXT_32:
        return _read_string(text, at, stop, place, table)
    lengths[place] = 0
    if head <= _POSITIVE_LAST or head >= _NEGATIVE:
        states[place] = INTEGER
        bits[place] = head if head <= _POSITIVE_LAST else head - 256
        end = at + 1
    elif _SINGLE <= head <= _UNSIGNED_64 or _SIGNED_8 <= head <= _SIGNED_64:
        end = _read_number(text, at, place, table)
    elif head == _FALSE or head == _TRUE:
        states[place] = TRUE if head == _TRUE else FALSE
        bits[place] = 0
        end = at + 1
    elif _EXTENSION_OF_1 <= head <= _EXTENSION_OF_16 or _EXTENSION_8 <= head <= _EXTENSION_32:
        end = _read_extension(text, at, stop, place, table)
    else:
        end = FAILED
    return end if end <= stop else FAILED
