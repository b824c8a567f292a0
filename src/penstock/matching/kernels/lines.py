"""What events matched, written as JSON lines: an event may match thousands of ids."""

from typing import Final

import numpy as np

from penstock.matching.batch import FALSE, STRING, TRUE
from penstock.matching.kernels.jit import kernel, outlined
from penstock.matching.kernels.search import Array

READY: Final = 32
"""State of an event's name that is JSON already; its bytes are beside the batch."""

_OPEN: Final = np.frombuffer(b'{"event":', np.uint8)
_IDS: Final = np.frombuffer(b',"ids":[', np.uint8)
_CLOSE: Final = np.frombuffer(b"]}\n", np.uint8)
_TRUE_WORD: Final = np.frombuffer(b"true", np.uint8)
_FALSE_WORD: Final = np.frombuffer(b"false", np.uint8)
_DIGITS: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHORT: Final = np.zeros(32, np.uint8)
"""The letter of a control character that has a short escape."""
for _control, _letter in zip(b"\b\t\n\f\r", b"btnfr", strict=True):
    _SHORT[_control] = _letter

_NUMBER_LENGTH_MAX: Final = len(str(-(2**63)))
_FIXED: Final = len(_OPEN) + len(_IDS) + len(_CLOSE) + _NUMBER_LENGTH_MAX
_ESCAPED_LENGTH_MAX: Final = len(r"\u0000")
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_COMMA: Final = ord(",")
_MINUS: Final = ord("-")
_SPACE: Final = ord(" ")
_U: Final = ord("u")
_ZERO: Final = ord("0")
_FEW: Final = 24


@outlined
def _copy(out: Array, n: int, text: Array, start: int, length: int) -> int:
    for i in range(length):
        out[n + i] = text[start + i]
    return n + length


@outlined
def _write_integer(out: Array, n: int, value: int) -> int:
    if value < 0:
        out[n] = _MINUS
        n += 1
        # The lowest number has no positive counterpart of its own type.
        left = np.uint64(-(value + 1)) + np.uint64(1)
    else:
        left = np.uint64(value)
    ten = np.uint64(10)
    digits = 1
    rest = left
    while rest >= ten:
        rest //= ten
        digits += 1
    for i in range(digits - 1, -1, -1):
        out[n + i] = np.uint8(_ZERO) + np.uint8(left % ten)
        left //= ten
    return n + digits


@outlined
def _write_string(out: Array, n: int, text: Array, start: int, length: int) -> int:
    out[n] = _QUOTE
    n += 1
    for i in range(start, start + length):
        byte = text[i]
        if byte >= _SPACE and byte not in (_QUOTE, _BACKSLASH):
            out[n] = byte
            n += 1
            continue
        out[n] = _BACKSLASH
        n += 1
        if byte >= _SPACE:
            out[n] = byte
        elif _SHORT[byte] != 0:
            out[n] = _SHORT[byte]
        else:
            out[n] = _U
            out[n + 1] = _ZERO
            out[n + 2] = _ZERO
            out[n + 3] = _DIGITS[byte >> 4]
            out[n + 4] = _DIGITS[byte & 15]
            n += 4
        n += 1
    out[n] = _QUOTE
    return n + 1


@outlined
def _sort(ranks: Array) -> None:
    if len(ranks) > _FEW:
        ranks.sort()
        return
    for i in range(1, len(ranks)):
        rank = ranks[i]
        at = i
        while at > 0 and ranks[at - 1] > rank:
            ranks[at] = ranks[at - 1]
            at -= 1
        ranks[at] = rank


@outlined
def _name_of(start: int, count: int, entries: Array, value_attribute: Array, attribute: int) -> int:
    """Where the value of the attribute is that names an event, or -1."""
    for e in range(start, start + count):
        if value_attribute[entries[e]] == attribute:
            return int(entries[e])
    return -1


@kernel
def write_lines(
    events: Array,
    first_row: int,
    start: Array,
    count: Array,
    entries: Array,
    value_attribute: Array,
    value_state: Array,
    value_bits: Array,
    value_length: Array,
    arena: Array,
    ready: Array,
    attribute: int,
    offsets: Array,
    numbers: Array,
    rank: Array,
    id_text: Array,
    id_offsets: Array,
) -> Array:
    """Write a line for each of the events: its name, and the ids that it matched in order of rank."""
    size = 0
    most = 0
    names = np.empty(len(events), np.int64)
    for e in range(len(events)):
        event = events[e]
        name = _name_of(start[event], count[event], entries, value_attribute, attribute)
        names[e] = name
        size += _FIXED
        if name >= 0:
            size += _ESCAPED_LENGTH_MAX * value_length[name] + 2
        most = max(most, offsets[event + 1] - offsets[event])
        for i in range(offsets[event], offsets[event + 1]):
            r = rank[numbers[i]]
            size += id_offsets[r + 1] - id_offsets[r] + 1
    out = np.empty(size, np.uint8)
    ranks = np.empty(most, np.int64)
    n = 0
    for e in range(len(events)):
        event = events[e]
        name = names[e]
        n = _copy(out, n, _OPEN, 0, len(_OPEN))
        state = value_state[name] if name >= 0 else 0
        if name < 0:
            n = _write_integer(out, n, first_row + event)
        elif state == STRING:
            n = _write_string(out, n, arena, value_bits[name], value_length[name])
        elif state == READY:
            n = _copy(out, n, ready, value_bits[name], value_length[name])
        elif state == TRUE:
            n = _copy(out, n, _TRUE_WORD, 0, len(_TRUE_WORD))
        elif state == FALSE:
            n = _copy(out, n, _FALSE_WORD, 0, len(_FALSE_WORD))
        else:
            n = _write_integer(out, n, value_bits[name])
        n = _copy(out, n, _IDS, 0, len(_IDS))
        found = offsets[event + 1] - offsets[event]
        for i in range(found):
            ranks[i] = rank[numbers[offsets[event] + i]]
        _sort(ranks[:found])
        for i in range(found):
            r = ranks[i]
            n = _copy(out, n, id_text, id_offsets[r], id_offsets[r + 1] - id_offsets[r])
            out[n] = _COMMA
            n += 1
        n = _copy(out, n - 1, _CLOSE, 0, len(_CLOSE))
    return out[:n]
