"""The families as ordered domains: least value, successor, predecessor.

An open end is a closed end one step further:

    number   decimals are dense, so nothing comes next. `After(5)` stands for the place just after 5: it
             is above 5, and below every number above 5
    time     after t comes t + 1 ns
    bool     false, then true
    string   after s comes s + '\\0'; only strings that end in '\\0' have a predecessor

Lists have no order. To the algebra of cuts they are one value, 0, and nothing comes after it.

Filters need no other notion of an end than "from this point on", which `cuts` builds on. Points of time
stand here as their nanoseconds, numbers in canonical form (an integral double within 64 bits is an int, a
decimal that some double prints as is that double).
"""

import math
from typing import Any, Final

from penstock.model.decimals import (
    ExactDecimal,
    canonical_number,
    midpoint,
    next_number,
    previous_number,
)
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN
from penstock.model.values import Family

__all__ = [
    "LEAST",
    "After",
    "Point",
    "after_prefix",
    "canonical_number",
    "first_value",
    "is_exact",
    "last_value",
    "predecessor",
    "rounded_out",
    "successor",
]

Point = Any
"""A point of an ordered domain, a value or the place just after one; points of different families are never
compared."""

LEAST: Final[dict[Family, Point]] = {
    Family.BOOL: False,
    Family.NUMBER: -math.inf,
    Family.TIME: INTEGER_MIN,
    Family.STRING: "",
    Family.LIST: 0,
}
"""The least value of each family."""

_LAST_CODE_POINT: Final = 0x10FFFF


class After:
    """The place just after a number: above it, and below every greater number. No value stands there."""

    __slots__ = ("value",)

    def __init__(self, value: Point) -> None:
        self.value = value

    def __lt__(self, other: Point) -> bool:
        return bool(self.value < (other.value if type(other) is After else other))

    def __le__(self, other: Point) -> bool:
        return bool(self.value <= other.value if type(other) is After else self.value < other)

    def __gt__(self, other: Point) -> bool:
        return bool(self.value > other.value if type(other) is After else self.value >= other)

    def __ge__(self, other: Point) -> bool:
        return bool(self.value >= (other.value if type(other) is After else other))

    def __eq__(self, other: object) -> bool:
        return type(other) is After and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((After, self.value))

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        return f"After({self.value!r})"


def successor(family: Family, value: Point) -> Point:
    """The point that follows a value, or None after the last; of what is no value, itself."""
    if family is Family.LIST:
        return None
    if family is Family.STRING:
        return value + "\0"
    if family is Family.NUMBER:
        if type(value) is After:
            return value
        return None if value == math.inf else After(value)
    if family is Family.TIME:
        return value + 1 if value < INTEGER_MAX else None
    return True if value is False else None


def predecessor(family: Family, value: Point) -> Point:
    """The value just before a point, or None where there is none."""
    if family is Family.LIST:
        return None
    if family is Family.STRING:
        return value[:-1] if value.endswith("\0") else None
    if family is Family.NUMBER:
        return value.value if type(value) is After else None
    if family is Family.TIME:
        return value - 1 if value > INTEGER_MIN else None
    return False if value is True else None


def first_value(start: Point, end: Point | None) -> Point:
    """A small number from `start` on, below `end`; None if the only ones are too long to be written."""
    if type(start) is not After:
        return start
    low = start.value
    above = next_number(_floor(low))
    if end is None or above is None or above < end:
        return above
    high = end.value if type(end) is After else end
    return midpoint(low, high)


def last_value(start: Point, end: Point) -> Point:
    """A great number from `start` on, below `end`; None if the only ones are too long to be written."""
    if type(end) is After:
        return end.value
    below = end.floor if type(end) is ExactDecimal else previous_number(end)
    return below if below is not None and below >= start else first_value(start, end)


def is_exact(point: Point) -> bool:
    """Whether a point of the numbers lies inside a gap: at a decimal that no double stands for."""
    return type(point) is ExactDecimal or (type(point) is After and type(point.value) is ExactDecimal)


def rounded_out(point: Point, *, is_end: bool) -> Point:
    """The start, or the end, of the gap that a point lies in; other points stay."""
    if not is_exact(point):
        return point
    floor = _floor(point.value if type(point) is After else point)
    return next_number(floor) if is_end else After(floor)


def _floor(number: Point) -> float:
    return number.floor if type(number) is ExactDecimal else number


def after_prefix(prefix: str) -> str | None:
    """The least string above every string that starts with the prefix; None where there is none."""
    for end in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[end])
        if code < _LAST_CODE_POINT:
            # The surrogates, U+D800 to U+DFFF, are no characters.
            return prefix[:end] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None
