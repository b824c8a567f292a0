"""Columns of decimals as numbers of a batch: a column at a time, as long as doubles print as its decimals.

A decimal of at most 15 digits is what its nearest double prints as: no two such decimals have the same
double, and no other decimal that short reads back as it. Its digits, and the power of ten, are doubles
themselves, so that one division rounds correctly. Columns of a large scale mostly have decimals with zeros at
their end; these are cut off first, where that loses nothing. What is left is looked at one by one, each value
once.
"""

from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.matching.batch import DECIMAL, DOUBLE, INTEGER
from penstock.matching.decimals import RECORD_BYTES, record_of
from penstock.model.decimals import ExactDecimal, number_of

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS_SURE: Final = 15
_SCALES: Final = (12, 8, 4, 2, 0)
"""Digits after the point that columns of a larger scale are tried with."""

_POWER_MAX: Final = 22
"""The greatest power of ten that is a double."""

_WIDTH: Final = 38
"""The digits of a decimal of 128 bits."""


class Decimals(NamedTuple):
    """A column of decimals; null is 0."""

    state: NDArray[np.uint8]
    bits: NDArray[np.int64]
    length: NDArray[np.int32]
    records: NDArray[np.uint8]
    """The records of those that no double stands for."""


def decimals_of(array: "pa.Array") -> Decimals | None:
    """The decimals of a column; None where one is no number that a model has."""
    import pyarrow as pa

    count = len(array)
    state = np.full(count, DOUBLE, np.uint8)
    doubles = np.zeros(count, np.float64)
    left = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
    wide = _as_wide(array)
    if wide is not None and wide.type.scale >= 0:
        scale = wide.type.scale
        for tried in (*((scale,) if scale <= _POWER_MAX else ()), *(one for one in _SCALES if one < scale)):
            if not len(left):
                break
            some = wide if len(left) == count else wide.take(pa.array(left))
            digits, good = _digits(some, scale, tried)
            doubles[left[good]] = digits[good] / 10.0**tried
            left = left[~good]
    bits = doubles.view(np.int64)
    length = np.zeros(count, np.int32)
    records: list[bytes] = []
    if len(left):
        values = array.take(pa.array(left)).to_pylist()
        known: dict[object, tuple[int, int, int]] = {}
        for at, value in zip(left.tolist(), values, strict=True):
            found = known.get(value)
            if found is None:
                try:
                    found = known[value] = _one(value, records)
                except PenstockError:
                    return None
            state[at], bits[at], length[at] = found
    return Decimals(state, bits, length, np.frombuffer(b"".join(records), np.uint8))


def _one(value: Decimal, records: list[bytes]) -> tuple[int, int, int]:
    """State, bits and length of one value; its record is put behind the others."""
    number = number_of(value)
    if isinstance(number, ExactDecimal):
        records.append(record_of(number))
        return DECIMAL, RECORD_BYTES * (len(records) - 1), RECORD_BYTES
    if isinstance(number, int):
        return INTEGER, number, 0
    return DOUBLE, int(np.float64(number).view(np.int64)), 0


def _as_wide(array: "pa.Array") -> "pa.Array | None":
    """The column as decimals of 128 bits, unless one has more digits."""
    import pyarrow as pa

    if pa.types.is_decimal128(array.type):
        return array
    try:
        return array.cast(pa.decimal128(_WIDTH, array.type.scale))
    except pa.ArrowException:
        return None


def _digits(array: "pa.Array", scale: int, tried: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The digits of decimals at a scale, as integers; and where these are few, and nothing is lost."""
    import pyarrow as pa
    import pyarrow.compute as pc

    good = array.is_valid().to_numpy(zero_copy_only=False)
    if tried < scale:
        loosely = pc.CastOptions(pa.decimal128(_WIDTH, tried), allow_decimal_truncate=True)
        shorter = pc.cast(array, options=loosely)
        back = pc.cast(shorter, options=pc.CastOptions(array.type, allow_decimal_truncate=True))
        good &= pc.equal(back, array).fill_null(False).to_numpy(zero_copy_only=False)
        array = shorter
    words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[::2], words[1::2]
    most = 10**_DIGITS_SURE
    good &= (high == low >> 63) & (low > -most) & (low < most)
    return low.astype(np.float64), good
