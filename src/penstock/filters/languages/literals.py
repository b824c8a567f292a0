"""What all text languages share: numeric literals, and how long a text may be."""

from penstock.errors import FilterSyntaxError, LimitError
from penstock.model.limits import INTEGER_MAX, INTEGER_MIN, NUMBER_LENGTH_MAX, TEXT_LENGTH_MAX


def read_number(literal: str, text: str, position: int) -> int | float:
    """Read digits as an integer, and anything with a point or an exponent as the nearest double."""
    if len(literal) > NUMBER_LENGTH_MAX:
        what = f"the number at column {position + 1} has {len(literal):,} characters"
        raise LimitError(what, "NUMBER_LENGTH_MAX", NUMBER_LENGTH_MAX)
    try:
        number: int | float = int(literal)
    except ValueError:
        number = float(literal)
        if number in (float("inf"), float("-inf")):
            raise FilterSyntaxError(
                "a number within the range of doubles", text, position, found=literal[:40]
            ) from None
        return number
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


def write_number(number: float) -> str:
    """Write a number so that reading it gives the same number."""
    return repr(number)
