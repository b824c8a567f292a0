"""What a detector keeps: partial matches, and events that must be absent; found again by what they bind."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from penstock.composites.expression import Atom
from penstock.composites.matches import Bound, Happened, Match, agreed, bound_by
from penstock.model.values import Family, Value

_AT_ONCE: Final = 64
"""Absent events that are dropped at once, at least."""

Key: TypeAlias = tuple[tuple[Family, Value] | None, ...]


class Partial:
    """Matches of one part of a composite that may still become part of a larger one."""

    def __init__(self, shared: Iterable[str]) -> None:
        """`shared`: the variables that the other part binds too."""
        self._shared = tuple(sorted(shared))
        self._by_key: dict[Key, deque[Match]] = {}
        self._order: deque[tuple[Key, Match]] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def put(self, match: Match) -> None:
        """Keep a match."""
        key = self._key(match.bound)
        self._by_key.setdefault(key, deque()).append(match)
        self._order.append((key, match))

    def like(self, bound: Bound) -> Iterator[Match]:
        """The matches that may agree with what is bound, the oldest first."""
        return iter(self._by_key.get(self._key(bound), ()))

    def expire(self, at: int, relevant: int) -> None:
        """Drop matches that began before a time, or before so many relevant events.

        They were put in the order in which they ended, so one that is not over yet may hide one that is. It
        is dropped later, and windows are looked at again where matches are joined.
        """
        while self._order:
            first = self._order[0][1].first
            if first.at >= at and first.relevant >= relevant:
                return
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Forget the oldest match."""
        key, _match = self._order.popleft()
        found = self._by_key[key]
        found.popleft()
        if not found:
            del self._by_key[key]

    def _key(self, bound: Bound) -> Key:
        # An alternative may leave a variable unbound elsewhere, but those shared are bound on both sides.
        return tuple(bound.get(variable) for variable in self._shared)


class Absent:
    """Events that match an atom which must be absent, in order."""

    def __init__(self, atom: Atom) -> None:
        self.atom = atom
        self._places: list[tuple[int, int]] = []
        self._relevant: list[int] = []
        self._bound: list[Bound] = []

    def __len__(self) -> int:
        return len(self._places)

    def put(self, happened: Happened) -> Bound | None:
        """Take an event; return what it binds if it is one of these."""
        bound = bound_by(self.atom, happened.event)
        if bound is not None:
            self._places.append(happened.place)
            self._relevant.append(happened.relevant)
            self._bound.append(bound)
        return bound

    def is_between(self, left: Match, right: Match, bound: Bound) -> bool:
        """Whether one came between two matches that agrees with what they bind."""
        start = bisect_right(self._places, left.last.place)
        end = bisect_left(self._places, right.first.place)
        return any(agreed(one, bound) is not None for one in self._bound[start:end])

    def expire(self, at: int, relevant: int) -> None:
        """Drop what came before a time, or before so many relevant events."""
        over = max(bisect_left(self._places, (at, -1)), bisect_left(self._relevant, relevant))
        # Not one by one: what is left moves.
        if over > _AT_ONCE and over * 2 > len(self._places):
            self._drop(over)

    def drop_oldest(self) -> None:
        """Forget the oldest."""
        self._drop(1)

    def _drop(self, count: int) -> None:
        del self._places[:count], self._relevant[:count], self._bound[:count]
