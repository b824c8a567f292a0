"""The filters that cost a broker most, as `tests/worst_filters.py` found them, and those of earlier attacks.

All are within the limits of a request: a broker has to parse them, or to find out that it will not.
"""

from collections.abc import Iterator
from itertools import count
from typing import Final

from penstock.model.limits import REQUEST_LENGTH_MAX

_PAIRS: Final = " or ".join(f"(x = {n} and y = {n})" for n in range(12))
_LIKES: Final = " or ".join(f"(z{n} like '%{n}%' and t{n} != 20 and s{n} != {20 - n})" for n in range(5))
_CROSSED: Final = " and ".join(
    f"(s not like '%{n}%' or x = {20 - n} or z not like '%-{min(n, 4)}%')" for n in range(2, 6)
)


def _grown(term: str, join: str, length: int, *, negated: bool = False) -> str:
    """One shape again and again, with another number each time, up to so many characters."""
    frame = len("not ()") if negated else 0
    parts: list[str] = []
    size = frame
    for n in count():
        part = term.format(n=n, up=20 + 2 * n, down=-2 * n)
        size += len(part) + len(join)
        if size > length:
            break
        parts.append(part)
    return f"not ({join.join(parts)})" if negated else join.join(parts)


_LONGEST: Final = REQUEST_LENGTH_MAX - 64
"""There is room for what tells one from the next (see `worst_filters`)."""

_LIKE_OR_NOT: Final = "(s like '%-{n}a%' or a != 20)"
_ANY_CASE: Final = "y ilike '%{down}a%'"
_EXPRESSIONS: Final = "(t > {down} or s rlike '{down}.?a')"

WORST: Final = (
    # Found in 40 seconds: python tests/worst_filters.py --seconds 40 --seed 1
    "((((((((a like '%0%' or a < 20 or t not like '%0%')) or z between 2 and 4)) and (not ((s not like '%0%' "
    "and b like '%0%' and y not like '%0%')) or a = 2 or z >= 9 or y != 1) and not ((b not like '%_bb_%' and "
    "not (x = 7 and y != 0 and a = 9 and y != 8 and a <= 12) and t <= 3)) and ((a0 != 20 or y0 > 40) and "
    "(a1 != 22 or y1 < 18)) and y is not null) or s = 6 or a like 'bb%' or s is not null)) and z like "
    "'a%dd%b') and x != 13",
    "((s not like '%0%' or x = 20 or z not like '%0%') and not (s not like '%1%' or x = 19 or z not like "
    f"'%-1%') or {_CROSSED})",
    f"not ({_LIKES})",
    # What blocked a broker for seconds once.
    f"not ({_PAIRS})",
    " and ".join(f"(a{n} = 1 or b{n} = 1)" for n in range(11)),
    " and ".join(f"(a{n} = 1 or b{n} = 1)" for n in range(64)),
    # Found in 20 seconds: python tests/worst_filters.py --seconds 20 --length 1024; then made longer.
    *(_grown(_EXPRESSIONS, " and ", length) for length in (1_024, 4_096)),
    _grown("(a not ilike '%{n}a%' or t not like '%0a%' or x ilike '%-{n}a%')", " and ", 1_024, negated=True),
    _grown(
        "(a not ilike '%{n}a%' or t not like '%0a%' or x ilike '%-{n}a%')", " and ", _LONGEST, negated=True
    ),
    _grown("(t like '%{down}a%' and y rlike '{down}.?a')", " or ", 8_192),
    _grown("(x < {up} or a < {up} or b ilike '%{down}a%')", " and ", _LONGEST),
    _grown(_LIKE_OR_NOT, " and ", 2_048, negated=True),
    _grown(_ANY_CASE, " or ", 8_192),
)
"""Those that are read."""

REFUSED: Final = (
    _grown(_LIKE_OR_NOT, " and ", _LONGEST, negated=True),
    _grown(_ANY_CASE, " or ", _LONGEST),
    _grown(_EXPRESSIONS, " and ", _LONGEST),
)
"""Those that take a while to refuse."""


def worst_filters() -> Iterator[str]:
    """The worst filters, again and again, each a little different so that no broker remembers it."""
    for number in count():
        for text in (*WORST, *REFUSED):
            yield f"({text}) and q != {number}"
