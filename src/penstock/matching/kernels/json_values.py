"""The values in a line of JSON: passed over where nobody wants them, or written into the table of a batch.

What is written is what is certain; `json_lines` says what is left to others.
"""

from typing import Final

import numpy as np

from penstock.matching.batch import DOUBLE, FALSE, INTEGER, STRING, TRUE
from penstock.matching.kernels.jit import inlined, kernel, outlined
from penstock.matching.kernels.json_blocks import (
    BACKSLASH,
    BLOCK,
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    DOT,
    FAILED,
    FORM_FEED,
    LETTER_B,
    LETTER_E,
    LETTER_F,
    LETTER_N,
    LETTER_R,
    LETTER_T,
    LETTER_U,
    MINUS,
    NEWLINE,
    OPEN,
    OPEN_LIST,
    PLUS,
    QUOTE,
    RETURN,
    SLASH,
    SPACE,
    TAB,
    ZERO,
    Bytes,
    Ints,
    Longs,
    bits_of,
    ends_of_text,
    lowest_bit,
    word_at,
)
from penstock.model.limits import STRING_LENGTH_MAX

Table = tuple[Ints, Bytes, Longs, Ints]
"""Of the values of a batch: attributes, states, bits, lengths."""

ESCAPED: Final = 16
"""Passing state of a string that has escapes; `unescape` turns it into STRING."""

LONG_DOUBLE: Final = 17
"""Passing state of a double that is left to be rounded; its text is given as if it were a string."""

LIST_TEXT: Final = 18
"""Passing state of a list: its text, from bracket to bracket, which the caller reads."""

_SKIPPED_DEPTH_MAX: Final = 60
_DIGITS_MAX: Final = 60
_POWER_MAX: Final = 150

_TRUE_WORD: Final = int.from_bytes(b"true", "little")
_ALSE_WORD: Final = int.from_bytes(b"alse", "little")
_NULL_WORD: Final = int.from_bytes(b"null", "little")
_FOUR_BYTES: Final = 2**32 - 1

_POWERS: Final = np.array([float(f"1e{power}") for power in range(23)])
"""The powers of ten that are doubles exactly: one product or quotient with them is rounded correctly."""

_MANTISSA_MAX: Final = 2**53

# --------------------------------------------------------------------------- values that nobody wants


@outlined
def skip_spaces(text: Bytes, at: int) -> int:
    """Past what JSON calls white."""
    while text[at] == SPACE or text[at] == TAB or text[at] == RETURN:
        at += 1
    return at


@outlined
def skip_blank(text: Bytes, at: int) -> int:
    """Past all that is white in a line, which is more than JSON calls so."""
    while text[at] == SPACE or (TAB <= text[at] <= RETURN and text[at] != NEWLINE):
        at += 1
    return at


@outlined
def _hexadecimal(text: Bytes, at: int) -> int:
    """The value of four digits, or FAILED."""
    value = 0
    for place in range(at, at + 4):
        if _is_digit(text[place]):
            value = value << 4 | text[place] - 48
        elif 65 <= text[place] & 0xDF <= 70:
            value = value << 4 | (text[place] & 0xDF) - 55
        else:
            return FAILED
    return value


@outlined
def _skip_unicode(text: Bytes, at: int) -> int:
    """Past an escape by number, or a pair of them that is one character."""
    value = _hexadecimal(text, at + 2)
    if value < 0 or 0xDC00 <= value <= 0xDFFF:
        return FAILED
    if not 0xD800 <= value <= 0xDBFF:
        return at + 6
    if text[at + 6] != BACKSLASH or text[at + 7] != LETTER_U:
        return FAILED
    return at + 12 if 0xDC00 <= _hexadecimal(text, at + 8) <= 0xDFFF else FAILED


@outlined
def _skip_escape(text: Bytes, at: int) -> int:
    kind = text[at + 1]
    if kind == LETTER_U:
        return _skip_unicode(text, at)
    if kind in (QUOTE, BACKSLASH, SLASH, LETTER_N):
        return at + 2
    if kind in (LETTER_T, LETTER_R, LETTER_B, LETTER_F):
        return at + 2
    return FAILED


@outlined
def _skip_string(text: Bytes, at: int) -> int:
    """Past the closing quote of the string that starts before `at`."""
    while True:
        bits = ends_of_text(text, at)
        if bits == 0:
            at += BLOCK
            continue
        at += lowest_bit(bits)
        if text[at] == QUOTE:
            return at + 1
        if text[at] != BACKSLASH:
            return FAILED
        at = _skip_escape(text, at)
        if at < 0:
            return FAILED


@outlined
def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


@outlined
def _exponent(text: Bytes, at: int) -> tuple[int, int]:
    """Read what follows an e; return the end and the value, which is kept small."""
    is_negative = text[at] == MINUS
    if is_negative or text[at] == PLUS:
        at += 1
    if not _is_digit(text[at]):
        return FAILED, 0
    value = 0
    while _is_digit(text[at]):
        if value < 10_000:
            value = value * 10 + text[at] - ZERO
        at += 1
    return at, -value if is_negative else value


@outlined
def _number(text: Bytes, at: int) -> tuple[int, int, int, int, bool]:
    """Read a number; return the end, its digits as an integer (mod 2**64), how many they are, the power
    of ten that they are to be multiplied with, and whether the number is an integer."""
    if text[at] == MINUS:
        at += 1
    first = at
    mantissa = 0
    while _is_digit(text[at]):
        mantissa = mantissa * 10 + text[at] - ZERO
        at += 1
    digits = at - first
    if digits == 0 or (text[first] == ZERO and digits > 1):
        return FAILED, 0, 0, 0, False
    power = 0
    is_integer = True
    if text[at] == DOT:
        is_integer = False
        at += 1
        first = at
        while _is_digit(text[at]):
            mantissa = mantissa * 10 + text[at] - ZERO
            at += 1
        power = first - at
        digits -= power
        if power == 0:
            return FAILED, 0, 0, 0, False
    if text[at] | 32 == LETTER_E:
        is_integer = False
        at, explicit = _exponent(text, at + 1)
        power += explicit
    return at, mantissa, digits, power, is_integer


@outlined
def _skip_number(text: Bytes, at: int) -> int:
    at, _mantissa, digits, power, is_integer = _number(text, at)
    if is_integer:
        return at if digits <= 19 else FAILED
    return at if digits <= _DIGITS_MAX and -_POWER_MAX <= power <= _POWER_MAX else FAILED


@outlined
def _skip_scalar(text: Bytes, at: int) -> int:
    byte = text[at]
    if byte == QUOTE:
        return _skip_string(text, at + 1)
    if byte == MINUS or _is_digit(byte):
        return _skip_number(text, at)
    word = word_at(text, at) & _FOUR_BYTES
    if word in (_TRUE_WORD, _NULL_WORD):
        return at + 4
    if byte == LETTER_F and word_at(text, at + 1) & _FOUR_BYTES == _ALSE_WORD:
        return at + 5
    return FAILED


@outlined
def _skip_key(text: Bytes, at: int) -> int:
    """From the quote of a key to the value."""
    if text[at] != QUOTE:
        return FAILED
    at = _skip_string(text, at + 1)
    if at < 0:
        return FAILED
    at = skip_spaces(text, at)
    return skip_spaces(text, at + 1) if text[at] == COLON else FAILED


@outlined
def _skip_to_next(text: Bytes, at: int, kinds: int) -> tuple[int, int]:
    """From the end of a value, past the ends of what it closes, to the next value, or out of all.

    `kinds` has a bit for each object or list around the value, the innermost lowest, 1 for an object, and
    above them a 1; when none is left the end is reached.
    """
    while kinds > 1:
        at = skip_spaces(text, at)
        is_object = kinds & 1
        if text[at] == COMMA:
            at = skip_spaces(text, at + 1)
            return (_skip_key(text, at) if is_object else at), kinds
        if text[at] != (CLOSE if is_object else CLOSE_LIST):
            return FAILED, kinds
        at += 1
        kinds >>= 1
    return at, kinds


@outlined
def skip_value(text: Bytes, at: int) -> int:
    """Past a value of any kind."""
    kinds = 1
    while True:
        byte = text[at]
        if byte in (OPEN, OPEN_LIST):
            if kinds >> _SKIPPED_DEPTH_MAX:
                return FAILED
            kinds = kinds << 1 | (1 if byte == OPEN else 0)
            at = skip_spaces(text, at + 1)
            # Both closing brackets come two after the opening ones.
            if text[at] != byte + 2:
                if byte == OPEN:
                    at = _skip_key(text, at)
                    if at < 0:
                        return FAILED
                continue
        else:
            at = _skip_scalar(text, at)
        if at >= 0:
            at, kinds = _skip_to_next(text, at, kinds)
        if at < 0 or kinds == 1:
            return at


# -------------------------------------------------------------------------------- values that are wanted


@inlined
def _take_string(text: Bytes, at: int, value: int, table: Table) -> int:
    _attribute, state, bits, length = table
    ends = ends_of_text(text, at)
    stop = at
    while ends == 0:
        stop += BLOCK
        ends = ends_of_text(text, stop)
    stop += lowest_bit(ends)
    state[value] = STRING
    if text[stop] != QUOTE:
        stop = _skip_string(text, stop) - 1
        if stop < 0:
            return FAILED
        state[value] = ESCAPED
    bits[value] = at
    length[value] = stop - at
    # Characters are what is limited, and they are no more than the bytes.
    return stop + 1 if stop - at <= STRING_LENGTH_MAX else FAILED


@outlined
def _take_number(text: Bytes, at: int, value: int, table: Table) -> int:
    _attribute, state, bits, length = table
    stop, mantissa, digits, power, is_integer = _number(text, at)
    if stop < 0:
        return FAILED
    is_negative = text[at] == MINUS
    length[value] = 0
    if is_integer:
        state[value] = INTEGER
        bits[value] = -mantissa if is_negative else mantissa
        # Nineteen digits are less than 2**64, so those beyond 2**63 show as negative.
        return stop if digits <= 19 and mantissa >= 0 else FAILED
    if digits <= 18 and mantissa <= _MANTISSA_MAX and -22 <= power <= 22:
        double = float(mantissa)
        double = double * _POWERS[power] if power >= 0 else double / _POWERS[-power]
        state[value] = DOUBLE
        bits[value] = bits_of(-double if is_negative else double)
        return stop
    state[value] = LONG_DOUBLE
    bits[value] = at
    length[value] = stop - at
    return stop if digits <= _DIGITS_MAX and -_POWER_MAX <= power <= _POWER_MAX else FAILED


@outlined
def take_value(text: Bytes, at: int, value: int, table: Table) -> int:
    """Write the value that starts here; return its end, or FAILED for what has no family."""
    _attribute, state, bits, length = table
    byte = text[at]
    if byte == QUOTE:
        return _take_string(text, at + 1, value, table)
    if byte == MINUS or _is_digit(byte):
        return _take_number(text, at, value, table)
    if byte == OPEN_LIST:
        end = skip_value(text, at)
        state[value] = LIST_TEXT
        bits[value] = at
        length[value] = end - at
        return end
    bits[value] = 0
    length[value] = 0
    if word_at(text, at) & _FOUR_BYTES == _TRUE_WORD:
        state[value] = TRUE
        return at + 4
    if byte == LETTER_F and word_at(text, at + 1) & _FOUR_BYTES == _ALSE_WORD:
        state[value] = FALSE
        return at + 5
    return FAILED


# --------------------------------------------------------------------------------------------- escapes


@outlined
def _write_character(text: Bytes, to: int, code: int) -> int:
    """Write a character as UTF-8; return where the next one goes."""
    if code < 0x80:
        text[to] = code
        return to + 1
    if code < 0x800:
        text[to] = 0xC0 | code >> 6
        text[to + 1] = 0x80 | code & 63
        return to + 2
    if code < 0x10000:
        text[to] = 0xE0 | code >> 12
        text[to + 1] = 0x80 | code >> 6 & 63
        text[to + 2] = 0x80 | code & 63
        return to + 3
    text[to] = 0xF0 | code >> 18
    text[to + 1] = 0x80 | code >> 12 & 63
    text[to + 2] = 0x80 | code >> 6 & 63
    text[to + 3] = 0x80 | code & 63
    return to + 4


@outlined
def _meaning(kind: int) -> int:
    """The character that a letter after a backslash stands for."""
    if kind == LETTER_N:
        return NEWLINE
    if kind == LETTER_T:
        return TAB
    if kind == LETTER_R:
        return RETURN
    if kind == LETTER_B:
        return 8
    if kind == LETTER_F:
        return FORM_FEED
    return kind


@kernel
def unescape(text: Bytes, values: int, state: Bytes, bits: Longs, length: Ints) -> None:
    """Turn what `read_lines` found as ESCAPED into STRING, in its place: it only gets shorter."""
    for value in range(values):
        if state[value] != ESCAPED:
            continue
        at = bits[value]
        stop = at + length[value]
        to = at
        while at < stop:
            if text[at] != BACKSLASH:
                text[to] = text[at]
                to += 1
                at += 1
            elif text[at + 1] != LETTER_U:
                to = _write_character(text, to, _meaning(text[at + 1]))
                at += 2
            else:
                code = _hexadecimal(text, at + 2)
                at += 6
                if 0xD800 <= code <= 0xDBFF:
                    code = 0x10000 + ((code - 0xD800) << 10) + _hexadecimal(text, at + 2) - 0xDC00
                    at += 6
                to = _write_character(text, to, code)
        state[value] = STRING
        length[value] = to - bits[value]
