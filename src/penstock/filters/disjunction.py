"""The canonical form of a disjunction of filters.

Filters that no event can match are dropped, filters that another covers are absorbed, and filters that
differ in one attribute are merged where one value set holds the union; again, until nothing changes.
The result depends only on the set of filters given, not on their order, and is a fixed point.

All merging here is perfect: it changes no event's answer.
"""

from collections import defaultdict
from collections.abc import Iterable

from penstock.errors import LimitError
from penstock.filters import cuts
from penstock.filters.filter import ALWAYS, Filter, box
from penstock.filters.valuesets import ABSENT, EXISTS, ValueSet, of_cuts
from penstock.model.limits import EXPANSION_WORK_MAX
from penstock.model.values import Family


class Work:
    """Counts the steps of one canonicalisation, so that hostile input ends in an error, not in a wait."""

    def __init__(self, limit: int | None = EXPANSION_WORK_MAX) -> None:
        self.left = limit

    def spend(self, steps: int) -> None:
        """Count steps; raise when there were too many."""
        if self.left is not None:
            self.left -= steps
            if self.left < 0:
                what = "the filter takes too many steps to bring into a disjunction of filters"
                raise LimitError(what, "EXPANSION_WORK_MAX", EXPANSION_WORK_MAX)


def canonical(filters: Iterable[Filter], work: Work) -> tuple[Filter, ...]:
    """The canonical form, sorted."""
    kept = {f for f in filters if f.satisfiable}
    if len(kept) < 2:
        return tuple(kept)
    common = _common(kept)
    if common:
        kept = {box({n: s for n, s in f.conditions.items() if n not in common}) for f in kept}
    while True:
        merged = set(_absorbed(_ordered({*_merged(_ordered(kept), work)}), work))
        if merged == kept:
            break
        kept = merged
    if common:
        kept = {box({**common, **f.conditions}) for f in kept}
    return tuple(_ordered(kept))


def _common(filters: set[Filter]) -> dict[str, ValueSet]:
    """The conditions that all filters share: as they decide nothing, they need not be compared."""
    shortest = min(filters, key=lambda f: len(f.conditions))
    return {
        name: states
        for name, states in shortest.conditions.items()
        if all(f.conditions.get(name) == states for f in filters)
    }


def _ordered(filters: Iterable[Filter]) -> list[Filter]:
    return sorted(filters, key=Filter.sort_key)


def _absorbed(filters: list[Filter], work: Work) -> list[Filter]:
    """Without the filters that another one covers.

    A filter covers only filters that constrain its attributes too, and if it asks for one value of an
    attribute (most do), only filters that ask for the same. So filters are kept by their attributes, and
    under them by one such value; only those without one are compared pair by pair.
    """
    if ALWAYS in filters:
        return [ALWAYS]
    shelves: dict[frozenset[str], _Shelf] = {}
    for general in filters:
        names = frozenset(general.conditions)
        shelves.setdefault(names, _Shelf()).put(general)
    by_size: dict[int, list[tuple[frozenset[str], _Shelf]]] = defaultdict(list)
    for names, shelf in shelves.items():
        by_size[len(names)].append((names, shelf))
    kept: list[Filter] = []
    for special in filters:
        own = frozenset(special.conditions)
        candidates = shelves[own].candidates(special)
        for size, known in by_size.items():
            if size < len(own):
                work.spend(len(known))
                candidates += [f for names, s in known if names < own for f in s.candidates(special)]
        work.spend(len(candidates))
        if not any(general is not special and general.covers(special) for general in candidates):
            kept.append(special)
    return kept


class _Shelf:
    """Filters over the same attributes, by a value that they ask for."""

    def __init__(self) -> None:
        self.by_point: dict[tuple[str, ValueSet], list[Filter]] = defaultdict(list)
        self.others: list[Filter] = []

    def put(self, general: Filter) -> None:
        points = [item for item in general.conditions.items() if item[1].is_point]
        if points:
            # The value that the fewest so far ask for.
            self.by_point[min(points, key=lambda item: len(self.by_point.get(item, ())))].append(general)
        else:
            self.others.append(general)

    def candidates(self, special: Filter) -> list[Filter]:
        """The filters that might cover this one."""
        if not self.by_point:
            return list(self.others)
        found = [f for item in special.conditions.items() for f in self.by_point.get(item, ())]
        return found + self.others


def _merged(filters: list[Filter], work: Work) -> list[Filter]:
    """With filters united that differ in one attribute only: one attribute after the other, by name."""
    alive = dict(enumerate(filters))
    having: dict[str, list[int]] = defaultdict(list)
    for at, f in alive.items():
        for name in f.conditions:
            having[name].append(at)
    for name in sorted(having):
        groups: dict[frozenset[tuple[str, ValueSet]], list[int]] = defaultdict(list)
        candidates = [at for at in having[name] if at in alive] if len(having[name]) > 1 else []
        work.spend(len(candidates))
        for at in candidates:
            conditions = alive[at].conditions
            groups[frozenset(item for item in conditions.items() if item[0] != name)].append(at)
        for group in groups.values():
            if len(group) > 1:
                members = [alive.pop(at) for at in group]
                united = unite([f.conditions[name] for f in members])
                # As many as before at the most: each takes the place of one that had the same names.
                for at, states in zip(group, united, strict=False):
                    alive[at] = members[0].replace(name, states)
    return list(alive.values())


def unite(sets: list[ValueSet]) -> list[ValueSet | None]:
    """The union of value sets of one attribute in as few as can be; None for "anything or absent"."""
    if EXISTS in sets:
        return [None] if ABSENT in sets else [EXISTS]
    alike: dict[tuple[object, ...], list[ValueSet]] = defaultdict(list)
    for states in sets:
        alike[int(states.kind), states.required, states.forbidden].append(states)
    united = [
        of_cuts(group[0].kind, cuts.union_all([s.cuts for s in group]), group[0].required, group[0].forbidden)
        for group in alike.values()
    ]
    return [states for one in united if (states := _trimmed(one, united)).cuts]


def _trimmed(states: ValueSet, others: list[ValueSet]) -> ValueSet:
    """Plain string intervals without those that lie within a set with patterns.

    So `x in ('a', 'z') or x like '%z'` has one form, however it was put together.
    """
    if states.kind is not Family.STRING or states.required or states.forbidden:
        return states
    patterned = [other for other in others if other.required or other.forbidden]
    if not patterned:
        return states
    pieces = [
        piece
        for piece in cuts.intervals(states.cuts)
        if not any(other.covers(ValueSet(Family.STRING, cuts.from_intervals([piece]))) for other in patterned)
    ]
    return ValueSet(Family.STRING, cuts.from_intervals(pieces))
