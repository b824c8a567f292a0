"""Decimals without a double in the arrays of a batch: a record of a fixed length in its arena.

A record begins with the key of the gap that the decimal lies in, which is all that kernels need, except for
filters with a constant in the same gap. Those are decided by the decimal itself (`computed`), which follows:
its exponent, and its digits as an integer. Everything is written with the lowest byte first.
"""

import math
from decimal import Decimal
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.model.decimals import ExactDecimal

_HEAD: Final = Struct("<qhh")
_DOUBLE: Final = Struct("<d")
_LONG: Final = Struct("<q")
_DIGITS_BYTES: Final = 32
"""76 digits and a sign take 254 bits."""

RECORD_BYTES: Final = _HEAD.size + _DIGITS_BYTES
"""The length of a record."""

_SIGN: Final = 0x7FFFFFFFFFFFFFFF


def key_of_number(number: float) -> tuple[int, int]:
    """The key of an integer or a double in canonical form, as `columns.number_keys` has it."""
    double = float(number)
    low = 0
    if type(number) is int:
        if double > number:
            double = math.nextafter(double, -math.inf)
        low = 2 * (number - int(double))
    bits = _LONG.unpack(_DOUBLE.pack(double))[0]
    return (bits if bits >= 0 else bits ^ _SIGN), low


def record_of(value: ExactDecimal) -> bytes:
    """The record of a decimal."""
    high, low = key_of_number(value.floor)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - it is finite
    whole = int("".join(map(str, digits)))
    number = (-whole if sign else whole).to_bytes(_DIGITS_BYTES, "little", signed=True)
    return _HEAD.pack(high, low + 1, exponent) + number


def decimal_at(arena: NDArray[np.uint8], at: int) -> ExactDecimal:
    """The decimal whose record stands here."""
    data = arena[at : at + RECORD_BYTES].tobytes()
    exponent = _HEAD.unpack_from(data)[2]
    whole = int.from_bytes(data[_HEAD.size :], "little", signed=True)
    digits = tuple(map(int, str(abs(whole))))
    return ExactDecimal(Decimal((int(whole < 0), digits, exponent)))
