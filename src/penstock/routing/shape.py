"""The shape of a predicate: what it surely demands of an event. A quick test before the covering test.

A predicate demands an attribute when each of its filters constrains it to be present. Where all of them
constrain it to one family, without patterns, the values lie in a hull, from the least end to the greatest.
If f covers g (Salo 2010, section 3.1), then g demands whatever f demands, and its hulls lie within f's.
So `may_cover` is false only where `covers` is; it says nothing more.

Ends are floats. Rounding to the nearest float is monotone, and so is reading the first bytes of a string as
a number: when a <= b, the float of a is not above that of b. Comparing the floats may take two ends for the
same that are not, never for the wrong way round; a false "may" is all that can come of it.

A clause of a filter (`penstock.filters.clauses`) demands what all its alternatives demand.

A shape is exact when it tells all there is to know: one filter, each attribute one interval, each end a float
without rounding, or just after one whose next float stands for nothing else. Between exact shapes
`may_cover` is `covers`.

Why it is sound where a filter is empty and the algebra does not notice: `covers` looks for an event outside f
attribute by attribute, and finds a rest on the attribute that g leaves free, or lets go beyond the hull,
whatever the other attributes are. Patterns are the exception (a rest cut in two may be noticed to be empty
where the whole was not), and so strings with patterns have no hull.
"""

from collections.abc import Callable
from functools import lru_cache
from math import inf, nextafter
from operator import le
from struct import Struct
from typing import Any, Final

from penstock.filters.filter import Clause, Filter
from penstock.filters.order import After, Point, is_exact, rounded_out
from penstock.filters.predicate import Predicate
from penstock.filters.valuesets import Presence, ValueSet
from penstock.model.values import Family

Key = tuple[tuple[str, int], ...]
"""The attributes demanded, in the order of their names, each with the family of its hull or NO_HULL."""

NO_HULL: Final = -1
_NEVER: Final = -2
_PREFIX: Final = 6
"""Bytes of a string that become a number: 257**6 is below 2**53, so that none is rounded."""

_EXACT_INTEGERS: Final = 2**52
_BITS: Final = Struct(">d")

_Column = tuple[int, float, float, bool]
"""Of one attribute: family, low, high, whether they tell all."""


class Shape:
    """What a predicate surely demands.

    `ends` has two floats for each attribute of `key`: low and the negative of high, so that f's hull holds
    g's when each of f's numbers is at most g's. Attributes without a hull have zeros.
    """

    __slots__ = ("ends", "exact", "key")

    def __init__(self, key: Key, ends: tuple[float, ...], exact: bool) -> None:
        self.key = key
        self.ends = ends
        self.exact = exact

    def __repr__(self) -> str:
        return f"Shape({self.key}, {self.ends}, exact={self.exact})"


NEVER: Final = Shape((("", _NEVER),), (), True)
"""The shape of what no event can match: covered by everything, covering nothing else."""


def shape_of(predicate: Predicate) -> Shape:
    """The shape of a predicate."""
    filters = predicate.filters
    if not filters:
        return NEVER
    columns, exact = _columns(filters[0])
    for f in filters[1:]:
        exact = False
        others, _exact = _columns(f)
        columns = {name: _joined(columns[name], others[name]) for name in columns if name in others}
    names = sorted(columns)
    ends: list[float] = []
    for name in names:
        _family, low, high, _sure = columns[name]
        ends += (low, -high)
    return Shape(tuple((name, columns[name][0]) for name in names), tuple(ends), exact)


def loose_shape_of(predicate: Predicate) -> Shape:
    """Like `shape_of`, but never exact, so that each cover is confirmed by a full test and counted as one."""
    shape = shape_of(predicate)
    return Shape(shape.key, shape.ends, False) if shape.exact else shape


def may_cover(f: Shape, g: Shape) -> bool:
    """False only if what has shape `f` does not cover what has shape `g`."""
    if f.key == g.key:
        return all(map(le, f.ends, g.ends))
    pairs = alignment(f.key, g.key)
    if pairs is None:
        return False
    mine, theirs = f.ends, g.ends
    for i, j in pairs:  # noqa: SIM110 - twice as fast as all(…)
        if mine[i] > theirs[j]:
            return False
    return True


@lru_cache(maxsize=2**16)
def alignment(f: Key, g: Key) -> tuple[tuple[int, int], ...] | None:
    """Which ends of a shape with key `f` to compare with which of one with key `g`; None: it never covers."""
    if g == NEVER.key:
        return ()
    at = {name: (j, family) for j, (name, family) in enumerate(g)}
    pairs: list[tuple[int, int]] = []
    for i, (name, family) in enumerate(f):
        if name not in at:
            return None
        j, other = at[name]
        if family == NO_HULL or other == NO_HULL:
            continue
        if family != other:
            return None
        pairs += [(2 * i, 2 * j), (2 * i + 1, 2 * j + 1)]
    return tuple(pairs)


def _columns(f: Filter) -> tuple[dict[str, _Column], bool]:
    """Each attribute that the filter demands, and whether all is told with them."""
    columns = {}
    exact = True
    for name, states in f.conditions.items():
        if states.kind is Presence.ABSENT:
            exact = False
            continue
        column = columns[name] = _column(states)
        exact = exact and column[3]
    for clause in f.clauses:
        exact = False
        for name, demanded in _demanded(clause).items():
            known = columns.get(name)
            columns[name] = demanded if known is None else _both(known, demanded)
    return columns, exact


def _demanded(clause: Clause) -> dict[str, _Column]:
    """What all alternatives of a clause demand."""
    columns, _ = _columns(clause[0])
    for alternative in clause[1:]:
        others, _ = _columns(alternative)
        columns = {name: _joined(columns[name], others[name]) for name in columns if name in others}
    return columns


def _both(a: _Column, b: _Column) -> _Column:
    """What is demanded where both are; a filter that demands two families at once matches nothing."""
    if a[0] == NO_HULL or b[0] == NO_HULL:
        return b if a[0] == NO_HULL else a
    return a if a[0] != b[0] else (a[0], max(a[1], b[1]), min(a[2], b[2]), False)


def _column(states: ValueSet) -> _Column:
    kind, cuts = states.kind, states.cuts
    if not isinstance(kind, Family) or states.required or states.forbidden:
        return NO_HULL, 0.0, 0.0, False
    read = _READ.get(kind, _end)
    low, sure = read(cuts[0])
    if len(cuts) & 1:
        return int(kind), low, inf, sure and len(cuts) == 1
    high, high_sure = read(cuts[-1])
    # An end at infinity leaves infinity itself out; no end does not. As floats they look the same.
    return int(kind), low, high, sure and high_sure and len(cuts) == 2 and high < inf


def _end(point: float) -> tuple[float, bool]:
    rounded = float(point)
    return rounded, rounded == point


def _number_end(point: Point) -> tuple[float, bool]:
    """The same for numbers. Just after a double is said as the next double, if that stands for nothing else.

    So a double whose last bit is set, and what is just after it, are never sure.
    """
    if is_exact(point):
        return _number_end(rounded_out(point, is_end=False))[0], False
    value = point.value if type(point) is After else point
    rounded, sure = _end(value)
    sure = sure and _BITS.pack(rounded)[-1] & 1 == 0
    if type(point) is not After:
        return rounded, sure
    if type(value) is int and abs(value) >= _EXACT_INTEGERS:
        return float(value + 1), False
    return nextafter(rounded, inf), sure


def _string_end(text: str) -> tuple[float, bool]:
    """The first bytes as a number. UTF-8 sorts as the code points do, and an end sorts before any byte."""
    data = text[: _PREFIX + 1].encode(errors="surrogatepass")
    number = 0
    for byte in data[:_PREFIX]:
        number = number * 257 + byte + 1
    return float(number * 257 ** max(0, _PREFIX - len(data))), len(data) <= _PREFIX


_READ: Final[dict[Family, Callable[[Any], tuple[float, bool]]]] = {
    Family.NUMBER: _number_end,
    Family.STRING: _string_end,
}


def _joined(a: _Column, b: _Column) -> _Column:
    if a[0] != b[0] or a[0] == NO_HULL:
        return NO_HULL, 0.0, 0.0, False
    return a[0], min(a[1], b[1]), max(a[2], b[2]), False
