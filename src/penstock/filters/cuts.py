"""Sets of values of one ordered family, as sorted cuts.

A cut is a value; the set toggles there. `(3, 7)` holds what is at least 3 and below 7; `(3, 7, 9)` that,
and everything from 9 on; `()` is empty. Ends are always "from here on": with `order.successor` every
open or closed end can be said so, and so each set has exactly one form. Equal sets are equal tuples.
"""

from bisect import bisect_right

from penstock.filters.order import Point

Cuts = tuple[Point, ...]


def contains(cuts: Cuts, value: Point) -> bool:
    """Whether the value is in the set."""
    return bisect_right(cuts, value) & 1 == 1


def complement(cuts: Cuts, least: Point) -> Cuts:
    """What is not in the set, of a family whose least value is given."""
    return cuts[1:] if cuts and cuts[0] == least else (least, *cuts)


def intersection(a: Cuts, b: Cuts) -> Cuts:
    """What is in both."""
    if a == b:
        return a
    return _combine(a, b, 2)


def union(a: Cuts, b: Cuts) -> Cuts:
    """What is in either."""
    if a == b:
        return a
    return _combine(a, b, 1)


def difference(a: Cuts, b: Cuts, least: Point) -> Cuts:
    """What is in `a` and not in `b`."""
    return intersection(a, complement(b, least))


def union_all(sets: list[Cuts]) -> Cuts:
    """What is in any of the sets."""
    starts = sorted(start for cuts in sets for start in cuts[::2])
    ends = sorted(end for cuts in sets for end in cuts[1::2])
    if not starts:
        return ()
    found = [starts[0]]
    # As many intervals have begun as ended, and so none holds, just where the next start lies beyond an end.
    for end, start in zip(ends, starts[1:], strict=False):
        if start > end:
            found += (end, start)
    if len(starts) == len(ends):
        found.append(ends[-1])
    return tuple(found)


def intersection_all(sets: list[Cuts]) -> Cuts:
    """What is in all of the sets, of which there is at least one."""
    # Combined as a balanced tree, so that n sets without a point each cost O(n log n).
    while len(sets) > 1:
        paired = [intersection(a, b) for a, b in zip(sets[::2], sets[1::2], strict=False)]
        if len(sets) & 1:
            paired.append(sets[-1])
        sets = paired
    return sets[0]


def covers(a: Cuts, b: Cuts) -> bool:
    """Whether everything in `b` is in `a`."""
    if a == b:
        return True
    length_a, length_b = len(a), len(b)
    at = 0
    for i in range(0, length_b, 2):
        # An interval lies within another exactly when no cut of `a` falls inside it.
        at = bisect_right(a, b[i], at)
        if not at & 1:
            return False
        if at < length_a and (i + 1 == length_b or b[i + 1] > a[at]):
            return False
    return True


def overlap(a: Cuts, b: Cuts) -> bool:
    """Whether anything is in both."""
    if len(a) > len(b):
        a, b = b, a
    # The longer one is not gone through: lists of thousands of values are compared with single ones.
    for i in range(0, len(a), 2):
        at = bisect_right(b, a[i])
        # The interval starts within one of the other's, or the next of these starts within it.
        if at & 1 or (at < len(b) and (i + 1 == len(a) or b[at] < a[i + 1])):
            return True
    return False


def intervals(cuts: Cuts) -> list[tuple[Point, Point | None]]:
    """The set as disjoint intervals (start, end), end excluded; None for no end."""
    ends = [*cuts[1::2], None] if len(cuts) & 1 else list(cuts[1::2])
    return list(zip(cuts[::2], ends, strict=True))


def from_intervals(pieces: list[tuple[Point, Point | None]]) -> Cuts:
    """The union of sorted, disjoint intervals that do not touch."""
    return tuple(cut for piece in pieces for cut in piece if cut is not None)


def _combine(a: Cuts, b: Cuts, needed: int) -> Cuts:
    """Sweep over both; keep what at least `needed` of the two hold (1: union, 2: intersection)."""
    cuts: list[Point] = []
    i = j = depth = 0
    len_a, len_b = len(a), len(b)
    inside = False
    while i < len_a or j < len_b:
        at = a[i] if j >= len_b or (i < len_a and a[i] <= b[j]) else b[j]
        if i < len_a and a[i] == at:
            depth += -1 if i & 1 else 1
            i += 1
        if j < len_b and b[j] == at:
            depth += -1 if j & 1 else 1
            j += 1
        if (depth >= needed) is not inside:
            inside = not inside
            cuts.append(at)
    return tuple(cuts)
