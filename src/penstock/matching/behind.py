"""What computed attributes ask for: which kinds of which attributes.

That does not depend on constants. `any(items where qty > 5)` and `any(items where qty > 6)` ask for the
same kinds. So names are told apart by their *shapes*, which have no constants, and one name of each shape is
parsed.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.filters.asked import Kind, Lists, conditions_inside, families_at, kinds_in
from penstock.matching.computed import filter_of
from penstock.model.places import Place
from penstock.model.values import Family

_REMEMBERED: Final = 4_096

_NUMBER: Final = r"[0-9][0-9.]*+(?:[eE][+-]?[0-9]++)?+"
_STRING: Final = "'(?:[^']++|'')*+'"
_NUMBERS: Final = re.compile(rf"(?<![\w.]){_NUMBER}(?:, -?{_NUMBER})*+")
_STRINGS: Final = re.compile(rf"{_STRING}(?:, {_STRING})*+")
_TOKENS: Final = re.compile(rf"""("(?:[^"]++|"")*+")|(?<![\w.]){_NUMBER}|(')(?:[^']++|'')*+'""")
"""Names in quotes may have anything in them."""


class Behind(NamedTuple):
    """What computed attributes of one shape ask for. Not to be changed."""

    kinds: Mapping[str, set[Kind]]
    """Of attributes of the event."""
    inside: tuple[tuple[Lists, Mapping[str, set[Kind]]], ...]
    """Of the elements of lists, condition by condition."""
    families: Mapping[Place, set[Family]]
    """Of both."""
    has_numbers: bool
    """Whether an attribute of the event is compared with numbers."""


_KNOWN: Final[dict[str, Behind]] = {}
"""By shape."""


def shape_of(name: str) -> str:
    """The name of a computed attribute without constants. A string leaves a quote, a number nothing."""
    if '"' in name:
        return _TOKENS.sub(r"\1\2", name.rstrip())
    if "'" in name:
        name = _STRINGS.sub("'", name)
    return _NUMBERS.sub("", name.rstrip())


def behind(name: str) -> Behind:
    """What a computed attribute asks for."""
    shape = shape_of(name)
    known = _KNOWN.get(shape)
    if known is None:
        f = filter_of(name)
        kinds = kinds_in([f])
        has_numbers = any(Family.NUMBER in some for some in kinds.values())
        known = Behind(kinds, tuple(conditions_inside([f])), families_at([f]), has_numbers)
        if len(_KNOWN) >= _REMEMBERED:
            _KNOWN.clear()
        _KNOWN[shape] = known
    return known
