"""The families as ordered domains: least value, successor, predecessor.

Every family is discrete or close to it, so that an open end is a closed end one step further:

    number   the 64-bit integers and the doubles together, a finite set: after 5 comes
             5.000000000000001, after 2**53 comes 2**53 + 1
    time     after t comes t + 1 ns
    bool     false, then true
    string   after s comes s + '\\0'; only strings that end in '\\0' have a predecessor

Lists have no order. To the algebra of cuts they are one value, 0, and nothing comes after it.

Filters need no other notion of an end than "from this value on", which `cuts` builds on. Points of time
stand here as their nanoseconds, numbers in canonical form (an integral double within 64 bits is an int).
"""

import math
from typing import Any, Final

from penstock.model.limits import INTEGER_MAX, INTEGER_MIN
from penstock.model.values import Family

Point = Any
"""A value of an ordered domain; values of different families are never compared."""

LEAST: Final[dict[Family, Point]] = {
    Family.BOOL: False,
    Family.NUMBER: -math.inf,
    Family.TIME: INTEGER_MIN,
    Family.STRING: "",
    Family.LIST: 0,
}
"""The least value of each family."""

_LAST_CODE_POINT: Final = 0x10FFFF
_DENSE_BELOW: Final = 2.0**53
"""From here on the integers lie at least as dense as the doubles."""


def canonical_number(value: float) -> float:
    """Return the one representative of a number: an int where the value is an integer of 64 bits."""
    if type(value) is float and value.is_integer() and INTEGER_MIN <= value <= INTEGER_MAX:
        return int(value)
    return value


def successor(family: Family, value: Point) -> Point:
    """The next value of the family, or None after the last."""
    if family is Family.LIST:
        return None
    if family is Family.STRING:
        return value + "\0"
    if family is Family.NUMBER:
        return next_number(value)
    if family is Family.TIME:
        return value + 1 if value < INTEGER_MAX else None
    return True if value is False else None


def predecessor(family: Family, value: Point) -> Point:
    """The value just before, or None where there is none."""
    if family is Family.LIST:
        return None
    if family is Family.STRING:
        return value[:-1] if value.endswith("\0") else None
    if family is Family.NUMBER:
        following = next_number(_negated(value))
        return None if following is None else _negated(following)
    if family is Family.TIME:
        return value - 1 if value > INTEGER_MIN else None
    return False if value is True else None


def next_number(value: float) -> float | None:
    """The least number, integer or double, above this one in canonical form; None above infinity."""
    if value == math.inf:
        return None
    if type(value) is int and not -_DENSE_BELOW <= value < _DENSE_BELOW and value < INTEGER_MAX:
        return value + 1
    double = float(value)
    if double <= value:
        double = math.nextafter(double, math.inf)
    return canonical_number(double)


def _negated(value: float) -> float:
    """The number on the other side of zero: the domain is symmetric but for 2**63, there a double."""
    return float(-value) if value == INTEGER_MIN else canonical_number(-value)


def after_prefix(prefix: str) -> str | None:
    """The least string above every string that starts with the prefix; None where there is none."""
    for end in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[end])
        if code < _LAST_CODE_POINT:
            # The surrogates, U+D800 to U+DFFF, are no characters.
            return prefix[:end] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None
