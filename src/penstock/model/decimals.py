"""Decimals: exact numbers, most of which are doubles or integers.

All numbers stand in one order. A 64-bit integer stands there for itself, and any other double for the decimal
that it prints as, the shortest that reads back as it. So 19.99 is the same number as a double, as a decimal
and in the text of a filter. To print doubles keeps their order, and no integer of 64 bits changes sides.

Decimals that neither an integer nor a double stands for, such as 0.1000000000000000001, are numbers of their
own (`ExactDecimal`). Each lies in a *gap*: above its `floor`, the greatest integer or double below it, and
below whatever comes next of these.
"""

import math
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

from penstock.errors import LimitError, UnsupportedValueError
from penstock.model.limits import (
    DECIMAL_DIGITS_MAX,
    DECIMAL_PLACES_MAX,
    DECIMAL_WHOLE_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
)

_EXACT: Final = Context(
    prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, clamp=0, traps=[Inexact, InvalidOperation]
)
"""Nothing is rounded here, whatever the program has set for its own arithmetic."""

_INTEGER_DIGITS: Final = 19
_SHOWN: Final = 80
"""Characters of a number that is written in full; a longer one is written with an exponent."""


class ExactDecimal(Decimal):
    """A decimal that is neither an integer of 64 bits nor what a double prints as. Made by `number_of`.

    It compares with integers, doubles and other decimals in the order of numbers (see the module). So it
    equals no double, also not the one whose binary digits it has.
    """

    __slots__ = ("floor",)

    floor: float
    """The greatest integer of 64 bits or double below it; in canonical form, as `number_of` gives them."""

    def __new__(cls, value: Decimal | str) -> "ExactDecimal":
        """Take a decimal that is known to have no double; trailing zeros are left out."""
        made = super().__new__(cls, _EXACT.normalize(Decimal(value)))
        made.floor = _floor(Decimal(made))
        return made

    def __lt__(self, other: Any) -> bool:
        if isinstance(other, float):
            return self.floor < other
        return Decimal.__lt__(self, other) if isinstance(other, Decimal | int) else NotImplemented

    def __le__(self, other: Any) -> bool:
        if isinstance(other, float):
            return self.floor < other
        return Decimal.__le__(self, other) if isinstance(other, Decimal | int) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        if isinstance(other, float):
            return self.floor >= other
        return Decimal.__gt__(self, other) if isinstance(other, Decimal | int) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        if isinstance(other, float):
            return self.floor >= other
        return Decimal.__ge__(self, other) if isinstance(other, Decimal | int) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if isinstance(other, float):
            return False
        return Decimal.__eq__(self, other) if isinstance(other, Decimal | int) else NotImplemented

    def __ne__(self, other: object) -> bool:
        if isinstance(other, float):
            return True
        return Decimal.__ne__(self, other) if isinstance(other, Decimal | int) else NotImplemented

    __hash__ = Decimal.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return ExactDecimal, (str(self),)


Number = int | float | ExactDecimal


def canonical_number(value: float) -> float:
    """Return the one representative of a number: an int where the value is an integer of 64 bits."""
    if type(value) is float and value.is_integer() and INTEGER_MIN <= value <= INTEGER_MAX:
        return int(value)
    return value


def number_of(value: Decimal) -> Number:
    """The number that a decimal is, in canonical form; or an error if it has too many digits."""
    if type(value) is ExactDecimal:
        return value
    if not value.is_finite():
        return math.nan if value.is_nan() else math.copysign(math.inf, value)
    if not value:
        return 0
    first = value.adjusted()
    if first > DECIMAL_WHOLE_MAX:
        _refuse_large(value)
    if first < -DECIMAL_PLACES_MAX:
        _refuse_places(-first)
    plain = _EXACT.normalize(Decimal(value))
    digits, exponent = plain.as_tuple()[1:]
    assert isinstance(exponent, int)  # noqa: S101 - it is finite
    if exponent >= 0 and first < _INTEGER_DIGITS and INTEGER_MIN <= (integer := int(plain)) <= INTEGER_MAX:
        return integer
    double = float(plain)
    if math.isfinite(double) and double and exact(canonical_number(double)) == plain:
        return double
    if first >= DECIMAL_WHOLE_MAX:
        _refuse_large(value)
    if len(digits) > DECIMAL_DIGITS_MAX:
        what = f"a decimal has {len(digits):,} digits"
        raise LimitError(what, "DECIMAL_DIGITS_MAX", DECIMAL_DIGITS_MAX)
    if -exponent > DECIMAL_PLACES_MAX:
        _refuse_places(-exponent)
    return ExactDecimal(plain)


def read_number(text: str) -> Number:
    """The number that a text with a point or an exponent says exactly; see `number_of`."""
    double = float(text)
    # Most are written as they are printed.
    if repr(double) == text:
        return double
    try:
        return number_of(Decimal(text))
    except InvalidOperation:
        # An exponent of twenty digits or so; one that is not negative has made the double infinite.
        raise UnsupportedValueError(f"{text[:40]} is outside the range of doubles") from None


def exact(number: Number) -> Decimal:
    """The decimal that a finite number in canonical form stands for."""
    return Decimal(repr(number)) if type(number) is float else Decimal(number)


def write_number(number: Number) -> str:
    """Write a number so that reading it gives the same number; in JSON too, unless it is infinite or NaN."""
    if not isinstance(number, Decimal):
        return repr(number)
    text = f"{number:f}"
    if len(text) > _SHOWN:
        text = f"{number:e}"
        mantissa, _, exponent = text.partition("e")
        return f"{mantissa}e{exponent}"
    return text if "." in text else text + ".0"


def midpoint(low: Number, high: Number) -> "ExactDecimal | None":
    """A decimal without a double halfway between two numbers; None if that is too long, or has a double."""
    if math.isinf(low) or math.isinf(high):
        return None
    middle = _EXACT.multiply(_EXACT.add(exact(low), exact(high)), Decimal("0.5"))
    try:
        found = number_of(middle)
    except (LimitError, UnsupportedValueError):
        return None
    return found if isinstance(found, ExactDecimal) else None


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


def previous_number(value: float) -> float | None:
    """The greatest number, integer or double, below this one in canonical form; None below -infinity."""
    following = next_number(_negated(value))
    return None if following is None else _negated(following)


_DENSE_BELOW: Final = 2.0**53
"""From here on the integers lie at least as dense as the doubles."""


def _negated(value: float) -> float:
    """The number on the other side of zero: the domain is symmetric but for 2**63, there a double."""
    return float(-value) if value == INTEGER_MIN else canonical_number(-value)


def _floor(value: Decimal) -> float:
    """The greatest integer of 64 bits or double below a finite decimal that is neither."""
    nearest = canonical_number(float(value))
    if math.isinf(nearest):
        nearest = canonical_number(math.nextafter(nearest, 0.0)) if nearest > 0 else nearest
    # What a double prints as lies on its own side of the neighbours, so one step is enough.
    if not math.isinf(nearest) and exact(nearest) > value:
        nearest = canonical_number(math.nextafter(float(nearest), -math.inf))
    if value.adjusted() >= 15 and value >= INTEGER_MIN:
        whole = INTEGER_MAX if value > INTEGER_MAX else math.floor(value)
        return max(nearest, whole)
    return nearest


def _refuse_large(value: Decimal) -> None:
    raise UnsupportedValueError(f"{value:.6e} is outside the range of doubles")


def _refuse_places(places: int) -> None:
    what = f"a decimal has {places:,} digits after the point"
    raise LimitError(what, "DECIMAL_PLACES_MAX", DECIMAL_PLACES_MAX)
