"""The filters that cost a broker most, as `tests/worst_filters.py` found them, and those of earlier attacks.

All are within the limits of a request: a broker has to parse them, or to find out that it will not.
"""

from collections.abc import Iterator
from itertools import count
from typing import Final

_PAIRS: Final = " or ".join(f"(x = {n} and y = {n})" for n in range(12))
_LIKES: Final = " or ".join(f"(z{n} like '%{n}%' and t{n} != 20 and s{n} != {20 - n})" for n in range(5))
_CROSSED: Final = " and ".join(
    f"(s not like '%{n}%' or x = {20 - n} or z not like '%-{min(n, 4)}%')" for n in range(2, 6)
)

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
)


def worst_filters() -> Iterator[str]:
    """The worst filters, again and again, each a little different so that no broker remembers it."""
    for number in count():
        for text in WORST:
            yield f"({text}) and q != {number}"
