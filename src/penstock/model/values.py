"""Values and their families.

A value is a bool, a number (a 64-bit integer, a double or a decimal, in one exact order), a string (Unicode,
ordered by code point), a time (UTC, nanoseconds) or a list. Python's own comparison of int with float and of
str with str is exactly that. Decimals that no double stands for have a type of their own (`decimals`), and so
have times, because `datetime` stops at microseconds. A list is a tuple of values and of records, which are
events (`penstock.model.events`).
"""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from numbers import Integral, Rational, Real
from typing import Any, Final, NoReturn, TypeAlias, cast

import msgspec

from penstock.errors import LimitError, UnsupportedValueError
from penstock.model.decimals import ExactDecimal, number_of
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN, STRING_LENGTH_MAX
from penstock.model.names import is_unicode


class Family(IntEnum):
    """The kinds of value; a constraint speaks of one of them."""

    BOOL = 1
    NUMBER = 2
    TIME = 3
    STRING = 4
    # The numbers between mean other things in tables: `valuesets.Presence`, `matching.columns`.
    LIST = 9

    @property
    def label(self) -> str:
        """The family's name as the documentation writes it."""
        return self.name.lower()

    @classmethod
    def named(cls, family: "Family | str") -> "Family":
        """The family itself, or the one that a label names."""
        found = family if isinstance(family, cls) else cls.__members__.get(str(family).upper())
        if found is None:
            labels = ", ".join(known.label for known in cls)
            raise UnsupportedValueError(f"there is no family {family!r:.40}; the families are {labels}")
        return found


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TIME_TEXT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)? ?(?:([Zz])|([+-]\d\d):?(\d\d))?)?",
    re.ASCII,
)
"""Text that may be a time, its fields as groups."""


class Time(msgspec.Struct, frozen=True, order=True, gc=False):
    """A point in time: nanoseconds since 1970-01-01T00:00:00Z, a signed 64-bit number (1677 to 2262)."""

    nanoseconds: int

    def __post_init__(self) -> None:
        if type(self.nanoseconds) is not int:
            raise UnsupportedValueError(f"a time is whole nanoseconds, not {self.nanoseconds!r:.40}")
        if not INTEGER_MIN <= self.nanoseconds <= INTEGER_MAX:
            raise UnsupportedValueError(
                "a time lies outside 1677-09-21T00:12:43.145224192Z … 2262-04-11T23:47:16.854775807Z, "
                "which 64-bit nanoseconds can hold"
            )

    @classmethod
    def parse(cls, text: str) -> "Time":
        """Read RFC 3339, or a date alone; `T` may be a space, and a time without a zone is UTC."""
        found = TIME_TEXT.fullmatch(text)
        if found is None:
            _refuse_time(text, "write 2013-01-31, 2013-01-31 05:00:00 or 2013-01-31T05:00:00.123456789Z")
        year, month, day, hour, minute, second, fraction, _zulu, zone_hour, zone_minute = found.groups()
        try:
            whole = datetime(
                int(year),
                int(month),
                int(day),
                int(hour or 0),
                int(minute or 0),
                int(second or 0),
                tzinfo=UTC,
            )
        except ValueError as error:
            _refuse_time(text, str(error))
        offset = 0
        if zone_hour is not None:
            hours, minutes = int(zone_hour), int(zone_minute)
            if abs(hours) > 23 or minutes > 59:
                _refuse_time(text, "a zone is at most ±23:59")
            offset = (abs(hours) * 60 + minutes) * (-1 if zone_hour[0] == "-" else 1)
        seconds = (whole - _EPOCH) // timedelta(seconds=1) - offset * 60
        return cls(seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0")))

    @classmethod
    def from_datetime(cls, moment: datetime) -> "Time":
        """Take a datetime (or a pandas Timestamp, with its nanoseconds); without a zone it is UTC."""
        aware = moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)
        micros = (aware - _EPOCH) // timedelta(microseconds=1)
        return cls(micros * 1000 + int(getattr(moment, "nanosecond", 0)))

    @classmethod
    def from_date(cls, day: date) -> "Time":
        """Take a date as its first instant in UTC."""
        return cls((day.toordinal() - _EPOCH.toordinal()) * 86_400 * 1_000_000_000)

    def __str__(self) -> str:
        """RFC 3339 in UTC, with as many decimals as are needed."""
        seconds, fraction = divmod(self.nanoseconds, 1_000_000_000)
        whole = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
        digits = f".{fraction:09d}".rstrip("0") if fraction else ""
        return f"{whole}{digits}Z"


def time_in(text: str) -> Time | None:
    """The time that a text is, as `Time.parse` reads it; or None."""
    if TIME_TEXT.fullmatch(text) is None:
        return None
    try:
        return Time.parse(text)
    except UnsupportedValueError:
        return None


def _refuse_time(text: str, why: str) -> NoReturn:
    raise UnsupportedValueError(f"{text[:60]!r} is not a time: {why}")


List: TypeAlias = tuple[Any, ...]
"""A list: a tuple of values and records, none of them null, and at least one."""

Scalar: TypeAlias = bool | int | float | str | Time | ExactDecimal
Value: TypeAlias = Scalar | List


def family_of(value: Value) -> Family:
    """The family of a value that `to_value` has accepted."""
    return _FAMILY_OF_TYPE[type(value)]


_FAMILY_OF_TYPE: Final[dict[type, Family]] = {
    bool: Family.BOOL,
    int: Family.NUMBER,
    float: Family.NUMBER,
    ExactDecimal: Family.NUMBER,
    str: Family.STRING,
    Time: Family.TIME,
    tuple: Family.LIST,
}

SCALARS: Final = (Family.BOOL, Family.NUMBER, Family.TIME, Family.STRING)
"""The families whose values are ordered."""


def to_value(value: object) -> Scalar:
    """Return the value as one of the six Python types that have a family, unchanged in meaning, or raise.

    Subclasses, numpy scalars, decimals, datetimes and dates are taken for what they are; null, bytes, and
    integers beyond 64 bits have no family. Lists are for `penstock.model.events` to read.
    """
    kind = type(value)
    if kind is str:
        return _checked_string(cast("str", value))
    if kind is int:
        return _checked_integer(cast("int", value))
    if kind is float or kind is bool or kind is Time or kind is ExactDecimal:
        return cast("Scalar", value)
    return _convert(value)


def is_null(value: object) -> bool:
    """Whether a value says that there is none: None, and the NaT and NA of numpy and pandas."""
    if value is None:
        return True
    kind = type(value)
    if kind.__module__ == "numpy":
        return getattr(getattr(value, "dtype", None), "kind", "") == "M" and bool(value != value)
    return kind.__module__.startswith("pandas.") and kind.__name__ in ("NaTType", "NAType")


def _checked_string(value: str) -> str:
    if len(value) > STRING_LENGTH_MAX:
        what = f"a string has {len(value):,} characters"
        raise LimitError(what, "STRING_LENGTH_MAX", STRING_LENGTH_MAX)
    if not is_unicode(value):
        raise UnsupportedValueError(f"the string {value!r:.60} is not Unicode text (it has a lone surrogate)")
    return value


def _checked_integer(value: int) -> int:
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        shown = f"{value:.6e}" if abs(value) < 10**300 else "an integer of hundreds of digits"
        raise UnsupportedValueError(f"{shown} does not fit a 64-bit integer")
    return value


def _convert(value: object) -> Scalar:
    """The slow path: subclasses and foreign scalar types."""
    if type(value).__module__ == "numpy":
        value = _from_numpy(value)
    if isinstance(value, bool | Time):
        return value
    if isinstance(value, str):
        return _checked_string(str.__str__(value))
    if isinstance(value, Integral):
        return _checked_integer(int(value))
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Decimal):
        return number_of(value)
    if isinstance(value, datetime) and not is_null(value):
        return Time.from_datetime(value)
    if isinstance(value, date) and not is_null(value):
        return Time.from_date(value)
    if isinstance(value, Real) and not isinstance(value, Rational):
        double = float(value)
        if double == value or double != double:
            return double
    return _refuse(value)


def _refuse(value: object) -> NoReturn:
    name = "null" if is_null(value) else type(value).__name__
    raise UnsupportedValueError(f"a value of type {name} has no family (bool, number, string, time or list)")


def _from_numpy(value: object) -> object:
    """A numpy scalar as the Python value it stands for; anything else of numpy's has no family."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or getattr(value, "ndim", None) != 0:
        _refuse(value)
    if dtype.kind == "M":
        ticks = value.astype("int64").item()  # type: ignore[attr-defined]
        if ticks == INTEGER_MIN:  # numpy's NaT
            return None
        unit = str(dtype)[len("datetime64[") : -1]
        scale = _NANOSECONDS_OF_UNIT.get(unit)
        if scale is None:
            raise UnsupportedValueError(f"a datetime64 in the unit {unit!r} cannot be read as a time")
        return Time(ticks * scale)
    if dtype.kind == "U" or (dtype.kind in "biuf" and dtype.itemsize <= 8):
        return value.item()  # type: ignore[attr-defined]
    # A longer double is taken below if it fits a double; durations and complex numbers are nothing.
    return value if dtype.kind == "f" else _refuse(value)


_NANOSECONDS_OF_UNIT: Final = {
    "D": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
