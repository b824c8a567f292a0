"""The signs in patterns on strings that no string value can hold: lone surrogates."""

from typing import Final

ONE: Final = "\ud800"
"""Any one character."""

RUN: Final = "\ud801"
"""Any run of characters, also none."""

FOLDED: Final = "\ud802"
"""In front: the rest is folded, and matched with folded texts."""

REGEX: Final = "\ud803"
"""In front: the rest is a regular expression as it is written."""
