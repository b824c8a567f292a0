"""Which of many filters covers one, found without comparing it with each.

A filter covers only filters that constrain its attributes too. If it asks for a single value of an attribute,
as most do, it covers only filters that ask for the same value. And its value sets begin no later, and end no
earlier, than those of the filters it covers. So filters are grouped by their attributes, then by the single
values they ask for; large groups are searched by the ends of the other value sets. Only what is left is
compared.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from penstock.filters.filter import Filter
from penstock.filters.order import Point
from penstock.filters.patterns import longest_literal
from penstock.filters.valuesets import Presence, ValueSet, evidence
from penstock.filters.work import Heft, weight_of_patterns
from penstock.model.values import Family

_FEW: Final = 8
"""So few filters are compared one by one."""

_BITS: Final = 512
"""Filters that a step goes over at once."""


Weighed = tuple[Filter, Heft]
"""A filter, and what comparing it costs."""


class Counter(Protocol):
    """Counts steps; may raise when there were too many."""

    def spend(self, steps: int) -> None:
        """Count steps."""


class Shelves:
    """Filters, all of them satisfiable, by what they may cover."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        shelves: dict[frozenset[str], _Shelf] = {}
        for f in filters:
            names = frozenset(f.conditions)
            if names not in shelves:
                shelves[names] = _Shelf(names)
            shelves[names].put(f)
        self._by_names = shelves
        self._by_name: dict[str, list[_Shelf]] = defaultdict(list)
        self._always = shelves.get(frozenset())
        # Those of few names first, as only these can be among the names of a filter.
        for shelf in sorted(shelves.values(), key=lambda shelf: len(shelf.names)):
            if shelf.names:
                # Filters covered from here have this name too: the one with the fewest shelves so far.
                name = min(shelf.names, key=lambda name: (len(self._by_name.get(name, ())), name))
                self._by_name[name].append(shelf)

    def has_cover(self, special: Filter, work: Counter) -> bool:
        """Whether one of the filters, another than this very one, covers it."""
        heft = Heft.of(special)
        for shelf in self._shelves(special, work):
            for general, other in shelf.candidates(special, work):
                if general is not special:
                    work.spend(other.covering(heft))
                    if general.covers(special):
                        return True
        return False

    def _shelves(self, special: Filter, work: Counter) -> "list[_Shelf]":
        """The shelves of filters all of whose attributes this one constrains too, its own first."""
        own = frozenset(special.conditions)
        same = self._by_names.get(own)
        found = [] if same is None else [same]
        if self._always is not None and own:
            found.append(self._always)
        looked = 0
        for name in special.conditions:
            for shelf in self._by_name.get(name, ()):
                if len(shelf.names) >= len(own):
                    break
                looked += 1
                if shelf.names < own:
                    found.append(shelf)
        work.spend(1 + looked // 8)
        return found


class _Shelf:
    """Filters over the same attributes, by which of them they ask for one value of, and which values."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self._asking: dict[tuple[str, ...], dict[tuple[ValueSet, ...], _Alike]] = {}

    def put(self, general: Filter) -> None:
        points = tuple(name for name, states in general.conditions.items() if states.is_point)
        values = tuple(general.conditions[name] for name in points)
        alike = self._asking.setdefault(points, {}).setdefault(values, _Alike())
        alike.filters.append((general, Heft.of(general)))

    def candidates(self, special: Filter, work: Counter) -> Iterator[Weighed]:
        """The filters that may cover this one."""
        conditions = special.conditions
        work.spend(1 + len(self._asking) // 2)
        for points, by_values in self._asking.items():
            alike = by_values.get(tuple(conditions[name] for name in points))
            if alike is not None:
                yield from alike.candidates(special, self.names.difference(points), work)


class _Alike:
    """Filters that ask for the same values of some attributes, and for value sets of the others."""

    def __init__(self) -> None:
        self.filters: list[Weighed] = []
        self._ends: list[_Ends] | None = None

    def candidates(self, special: Filter, names: frozenset[str], work: Counter) -> Iterator[Weighed]:
        if len(self.filters) <= _FEW or not names:
            yield from self.filters
            return
        if self._ends is None:
            work.spend(2 * len(self.filters) * len(names))
            self._ends = [_Ends(name, [f for f, _ in self.filters]) for name in sorted(names)]
        found = -1
        work.spend(len(self._ends) * (1 + len(self.filters) // _BITS))
        for ends in self._ends:
            work.spend(ends.steps(special.conditions[ends.name]))
            found &= ends.around(special.conditions[ends.name])
            if not found:
                return
        while found:
            last = found & -found
            yield self.filters[last.bit_length() - 1]
            found ^= last


class _Ends:
    """Where filters' value sets of one attribute begin and end: which of them reach around another.

    Filters are bits of an integer, so that one step finds those that reach around in two attributes.
    """

    def __init__(self, name: str, filters: list[Filter]) -> None:
        self.name = name
        starts: dict[int, list[tuple[Point, int]]] = defaultdict(list)
        stops: dict[int, list[tuple[Point, int]]] = defaultdict(list)
        self._endless: dict[int, int] = defaultdict(int)
        self._any = 0
        self._literals: dict[str, int] = defaultdict(int)
        self._lengths: set[int] = set()
        """Texts that must stand in what filters with patterns cover, and their lengths."""
        self._free = 0
        for at, f in enumerate(filters):
            states, bit = f.conditions[name], 1 << at
            kind = int(states.kind)
            patterns = states.required if kind == Family.STRING else ()
            literal = max(map(longest_literal, patterns), key=len, default="")
            if literal:
                self._literals[literal] |= bit
                self._lengths.add(len(literal))
            else:
                self._free |= bit
            if kind == Presence.EXISTS:
                self._any |= bit
            starts[kind].append((states.cuts[0], bit))
            if len(states.cuts) & 1:
                self._endless[kind] |= bit
            else:
                stops[kind].append((states.cuts[-1], bit))
        self._starts = {kind: _summed(found) for kind, found in starts.items()}
        self._stops = {kind: _summed(found) for kind, found in stops.items()}

    def around(self, states: ValueSet) -> int:
        """The filters whose value set begins no later than this one, and ends no earlier."""
        kind = int(states.kind)
        anything = 0 if kind == Presence.ABSENT else self._any
        if kind not in self._starts:
            return anything
        points, sums = self._starts[kind]
        found = sums[bisect_right(points, states.cuts[0])]
        reaching = self._endless[kind]
        if not len(states.cuts) & 1 and kind in self._stops:
            points, sums = self._stops[kind]
            reaching |= sums[-1] ^ sums[bisect_left(points, states.cuts[-1])]
        found = (found & reaching) | anything
        return found & self._implied(states) if self._literals and kind == Family.STRING else found

    def steps(self, states: ValueSet) -> int:
        """How many steps `around` takes for patterns."""
        return len(self._lengths) * weight_of_patterns(states) if self._lengths else 0

    def _implied(self, states: ValueSet) -> int:
        """The filters whose patterns may be implied by this value set, and those without patterns."""
        found = self._free
        for text in evidence(states):
            for length in self._lengths:
                for at in range(len(text) - length + 1):
                    found |= self._literals.get(text[at : at + length], 0)
        return found


def _summed(found: list[tuple[Point, int]]) -> tuple[list[Point], list[int]]:
    """The points in order, and for each number of them the bits of so many together."""
    found.sort()
    sums = [0]
    for _point, bit in found:
        sums.append(sums[-1] | bit)
    return [point for point, _bit in found], sums
