"""What all text languages share: numeric literals, and how long a text may be."""

from penstock.errors import FilterSyntaxError, LimitError, UnsupportedValueError
from penstock.model import decimals
from penstock.model.decimals import Number, write_number
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN, NUMBER_LENGTH_MAX, TEXT_LENGTH_MAX

__all__ = ["check_text", "read_number", "write_number"]


def read_number(literal: str, text: str, position: int) -> Number:
    """Read digits as an integer; with a point or an exponent a number is exactly what is written."""
    if len(literal) > NUMBER_LENGTH_MAX:
        what = f"the number at column {position + 1} has {len(literal):,} characters"
        raise LimitError(what, "NUMBER_LENGTH_MAX", NUMBER_LENGTH_MAX)
    try:
        number = int(literal)
    except ValueError:
        try:
            return decimals.read_number(literal)
        except UnsupportedValueError:
            raise FilterSyntaxError(
                "a number within the range of doubles", text, position, found=literal[:40]
            ) from None
    if not INTEGER_MIN <= number <= INTEGER_MAX:
        expected = "an integer of 64 bits (a double is written with a point or an exponent: 1e19)"
        raise FilterSyntaxError(expected, text, position, found=literal[:40])
    return number


def check_text(text: str) -> str:
    """Return the text of a filter, read or written, or raise when it is longer than a text may be."""
    if len(text) > TEXT_LENGTH_MAX:
        what = f"the text of a filter has {len(text):,} characters"
        raise LimitError(what, "TEXT_LENGTH_MAX", TEXT_LENGTH_MAX)
    return text
