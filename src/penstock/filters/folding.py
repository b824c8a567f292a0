"""Case, as `ilike` ignores it: Unicode's simple case folding, one character to one character.

Two texts are alike when they are equal folded. Folding is by code point: it knows no language and no
neighbours, and never changes a text's length, so a pattern is folded just as texts are. `ß` is no `ss`, and
Turkish has no rules of its own. The table is written out here: every Python, and the kernels, fold alike.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

_RUNS: Final = """
41+25*1+32 b5+775 c0+22*1+32 d8+6*1+32 100+23*2+1 132+2*2+1 139+7*2+1 14a+22*2+1 178-121 179+2*2+1
17f-268 181+210 182+1*2+1 186+206 187+1 189+1*1+205 18b+1 18e+79 18f+202 190+203 191+1 193+205
194+207 196+211 197+209 198+1 19c+211 19d+213 19f+214 1a0+2*2+1 1a6+218 1a7+1 1a9+218 1ac+1 1ae+218
1af+1 1b1+1*1+217 1b3+1*2+1 1b7+219 1b8+1 1bc+1 1c4+2 1c5+1 1c7+2 1c8+1 1ca+2 1cb+8*2+1 1de+8*2+1
1f1+2 1f2+1*2+1 1f6-97 1f7-56 1f8+19*2+1 220-130 222+8*2+1 23a+10795 23b+1 23d-163 23e+10792 241+1
243-195 244+69 245+71 246+4*2+1 345+116 370+1*2+1 376+1 37f+116 386+38 388+2*1+37 38c+64 38e+1*1+63
391+16*1+32 3a3+8*1+32 3c2+1 3cf+8 3d0-30 3d1-25 3d5-15 3d6-22 3d8+11*2+1 3f0-54 3f1-48 3f4-60
3f5-64 3f7+1 3f9-7 3fa+1 3fd+2*1-130 400+15*1+80 410+31*1+32 460+16*2+1 48a+26*2+1 4c0+15 4c1+6*2+1
4d0+47*2+1 531+37*1+48 10a0+37*1+7264 10c7+7264 10cd+7264 13f8+5*1-8 1c80-6222 1c81-6221 1c82-6212
1c83+1*1-6210 1c85-6211 1c86-6204 1c87-6180 1c88+35267 1c90+42*1-3008 1cbd+2*1-3008 1e00+74*2+1
1e9b-58 1e9e-7615 1ea0+47*2+1 1f08+7*1-8 1f18+5*1-8 1f28+7*1-8 1f38+7*1-8 1f48+5*1-8 1f59+3*2-8
1f68+7*1-8 1f88+7*1-8 1f98+7*1-8 1fa8+7*1-8 1fb8+1*1-8 1fba+1*1-74 1fbc-9 1fbe-7173 1fc8+3*1-86
1fcc-9 1fd8+1*1-8 1fda+1*1-100 1fe8+1*1-8 1fea+1*1-112 1fec-7 1ff8+1*1-128 1ffa+1*1-126 1ffc-9
2126-7517 212a-8383 212b-8262 2132+28 2160+15*1+16 2183+1 24b6+25*1+26 2c00+47*1+48 2c60+1
2c62-10743 2c63-3814 2c64-10727 2c67+2*2+1 2c6d-10780 2c6e-10749 2c6f-10783 2c70-10782 2c72+1 2c75+1
2c7e+1*1-10815 2c80+49*2+1 2ceb+1*2+1 2cf2+1 a640+22*2+1 a680+13*2+1 a722+6*2+1 a732+30*2+1
a779+1*2+1 a77d-35332 a77e+4*2+1 a78b+1 a78d-42280 a790+1*2+1 a796+9*2+1 a7aa-42308 a7ab-42319
a7ac-42315 a7ad-42305 a7ae-42308 a7b0-42258 a7b1-42282 a7b2-42261 a7b3+928 a7b4+7*2+1 a7c4-48
a7c5-42307 a7c6-35384 a7c7+1*2+1 a7d0+1 a7d6+1*2+1 a7f5+1 ab70+79*1-38864 ff21+25*1+32 10400+39*1+40
104b0+35*1+40 10570+10*1+39 1057c+14*1+39 1058c+6*1+39 10594+1*1+39 10c80+50*1+64 118a0+31*1+32
16e40+31*1+32 1e900+33*1+34
"""
"""Unicode 14.0, CaseFolding.txt, statuses C and S: the first character of a run, how many more follow in
which steps, and what is added to each."""


def _read(run: str) -> tuple[int, int, int, int]:
    sign = max(run.rfind("+"), run.rfind("-"))
    where, added = run[:sign], int(run[sign:])
    first, _plus, more = where.partition("+")
    count, _times, step = (more or "0*1").partition("*")
    start, width = int(first, 16), int(step)
    return start, start + int(count) * width, width, added


RUNS: Final = tuple(map(_read, _RUNS.split()))
"""First character, last, step, and what is added; in order."""

_LASTS: Final = [last for _first, last, _step, _added in RUNS]

_FOLDED: Final = {
    code: code + added for first, last, step, added in RUNS for code in range(first, last + 1, step)
}

_CASED: Final = frozenset(map(chr, {*_FOLDED, *_FOLDED.values()}))


def fold(text: str) -> str:
    """The text without case. Characters that have none stay as they are."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


def fold_ranges(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What the characters of ranges of code points fold to, those that change, as ranges in no order."""
    for low, high in ranges:
        at = bisect_left(_LASTS, low)
        while at < len(RUNS) and RUNS[at][0] <= high:
            first, last, step, added = RUNS[at]
            begin = first + max(0, -(-(low - first) // step)) * step
            for start in range(begin, min(last, high) + 1, step) if step > 1 else (begin,):
                yield start + added, (start if step > 1 else min(last, high)) + added
            at += 1


def has_case(text: str) -> bool:
    """Whether some character of the text is like another one."""
    return not _CASED.isdisjoint(text)


def caseless_prefix(text: str) -> str:
    """The text up to its first character that has case."""
    for at, character in enumerate(text):
        if character in _CASED:
            return text[:at]
    return text
