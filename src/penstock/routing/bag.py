"""A bag of members that is asked, all at once, which of them may cover a shape and which it may cover.

Members with the same attributes form a group. A small group is a list, looked through in a plain loop; a
large one is a matrix with a column for each member, so that one comparison for each end takes the place of
thousands of covering tests. Removing a member moves the last one into its place.
"""

from collections.abc import Iterator
from itertools import chain
from operator import le
from typing import Any, Final, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from penstock.routing.shape import Key, Shape, alignment, may_cover

SMALL: Final = 16
"""So many members are looked through faster in a loop than by NumPy, whose calls cost about a µs each."""

Pairs = tuple[tuple[int, int], ...]


class Member:
    """What can be in a bag, one at a time: it has a shape, and knows its place."""

    __slots__ = ("group", "row", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.group: Group[Any] | None = None
        self.row = -1


M = TypeVar("M", bound=Member)


class Group(Generic[M]):
    """Members whose shapes have the same key."""

    __slots__ = ("ends", "key", "loose", "members")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.members: list[M] = []
        self.ends: NDArray[np.float64] | None = None
        self.loose = 0
        """How many members have a shape that is not exact."""

    def add(self, member: M) -> None:
        """Put the member last."""
        row = len(self.members)
        self.members.append(member)
        member.group, member.row = self, row
        self.loose += not member.shape.exact
        if self.ends is not None:
            if row == self.ends.shape[1]:
                self.ends = np.concatenate((self.ends, np.empty_like(self.ends)), axis=1)
            self.ends[:, row] = member.shape.ends
        elif row >= SMALL:
            self.ends = np.empty((len(member.shape.ends), 4 * SMALL))
            self.ends[:, : row + 1] = np.array([m.shape.ends for m in self.members]).T

    def discard(self, member: M) -> None:
        """Take the member out; the last one takes its place."""
        row, last = member.row, self.members.pop()
        if last is not member:
            self.members[row] = last
            last.row = row
            if self.ends is not None:
                self.ends[:, row] = self.ends[:, len(self.members)]
        member.group, member.row = None, -1
        self.loose -= not member.shape.exact
        if len(self.members) <= SMALL // 2:
            self.ends = None

    def covering(self, shape: Shape) -> list[int] | NDArray[np.intp]:
        """The rows of those that may cover the shape."""
        pairs = alignment(self.key, shape.key)
        if pairs is None:
            return []
        if self.ends is None:
            return self._search(shape, pairs, upward=True)
        count, ends = len(self.members), self.ends
        return _all_of([ends[i, :count] <= shape.ends[j] for i, j in pairs], count)

    def covering_among(self, shape: Shape, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of some rows that may cover the shape."""
        pairs = alignment(self.key, shape.key)
        if pairs is None:
            return rows[:0]
        if self.ends is None:
            found = [row for row in rows.tolist() if may_cover(self.members[row].shape, shape)]
            return np.array(found, np.intp)
        for i, j in pairs:
            rows = rows[self.ends[i, rows] <= shape.ends[j]]
        return rows

    def covered(self, shape: Shape) -> list[int] | NDArray[np.intp]:
        """The rows of those that the shape may cover."""
        pairs = alignment(shape.key, self.key)
        if pairs is None:
            return []
        if self.ends is None:
            return self._search(shape, pairs, upward=False)
        count, ends = len(self.members), self.ends
        return _all_of([ends[j, :count] >= shape.ends[i] for i, j in pairs], count)

    def _search(self, shape: Shape, pairs: Pairs, *, upward: bool) -> list[int]:
        wanted, rows = shape.ends, enumerate(self.members)
        if self.key == shape.key:
            if upward:
                return [row for row, member in rows if all(map(le, member.shape.ends, wanted))]
            return [row for row, member in rows if all(map(le, wanted, member.shape.ends))]
        if upward:
            return [row for row, m in rows if all(m.shape.ends[i] <= wanted[j] for i, j in pairs)]
        return [row for row, m in rows if all(wanted[i] <= m.shape.ends[j] for i, j in pairs)]


class Bag(Generic[M]):
    """Members of any shape, each at most once."""

    __slots__ = ("_count", "_groups")

    def __init__(self) -> None:
        self._groups: dict[Key, Group[M]] = {}
        self._count = 0

    def add(self, member: M) -> None:
        """Put a member in that is in no bag."""
        key = member.shape.key
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
        group.add(member)
        self._count += 1

    def discard(self, member: M) -> None:
        """Take a member out that is in this bag."""
        group = cast("Group[M]", member.group)
        group.discard(member)
        if not group.members:
            del self._groups[group.key]
        self._count -= 1

    def may_cover(self, shape: Shape) -> list[M]:
        """Those that may cover what has the shape."""
        return [group.members[row] for group, rows in self.covering(shape) for row in rows]

    def may_be_covered(self, shape: Shape) -> list[M]:
        """Those that what has the shape may cover."""
        return [group.members[row] for group, rows in self.covered(shape) for row in rows]

    def covering(self, shape: Shape) -> list[tuple[Group[M], list[int] | NDArray[np.intp]]]:
        """Like `may_cover`, as groups with rows."""
        found = [(group, group.covering(shape)) for group in self._groups.values()]
        return [(group, rows) for group, rows in found if len(rows)]

    def covered(self, shape: Shape) -> list[tuple[Group[M], list[int] | NDArray[np.intp]]]:
        """Like `may_be_covered`, as groups with rows."""
        found = [(group, group.covered(shape)) for group in self._groups.values()]
        return [(group, rows) for group, rows in found if len(rows)]

    def __iter__(self) -> Iterator[M]:
        return chain.from_iterable(group.members for group in self._groups.values())

    def __len__(self) -> int:
        return self._count


def _all_of(conditions: list[NDArray[np.bool_]], count: int) -> NDArray[np.intp]:
    """The rows where every condition holds."""
    if not conditions:
        return np.arange(count)
    hit = conditions[0]
    for condition in conditions[1:]:
        np.logical_and(hit, condition, out=hit)
    return hit.nonzero()[0]
