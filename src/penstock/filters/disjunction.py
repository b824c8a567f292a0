"""The canonical form of a disjunction of filters.

Filters that no event can match are dropped, filters that another covers are absorbed, and filters that
differ in one attribute are merged where one value set holds the union; again, until nothing changes.
The result depends only on the set of filters given, not on their order, and is a fixed point.

All merging here is perfect: it changes no event's answer.
"""

from collections import defaultdict
from collections.abc import Iterable

from penstock.filters import cuts
from penstock.filters.filter import ALWAYS, Filter, box, ordered_box
from penstock.filters.shelves import Shelves
from penstock.filters.valuesets import ABSENT, EXISTS, ValueSet, of_cuts
from penstock.filters.work import Work, weight, weight_of_patterns
from penstock.model.values import Family


def canonical(filters: Iterable[Filter], work: Work) -> tuple[Filter, ...]:
    """The canonical form, sorted; filters with clauses, each of them settled, stand last."""
    given = list(filters)
    with_clauses = {f for f in given if f.clauses}
    if not with_clauses:
        return _canonical(given, work)
    plain = _canonical((f for f in given if not f.clauses), work)
    shelves = Shelves(plain)
    # They are not merged with others: what is true of a merged box need not be true of clauses any more.
    work.spend(sum(map(weight, with_clauses)))
    kept = [f for f in with_clauses if not shelves.has_cover(f, work)]
    return (*plain, *sorted(kept, key=Filter.sort_key))


def _canonical(filters: Iterable[Filter], work: Work) -> tuple[Filter, ...]:
    found = {f for f in filters if f.satisfiable}
    work.compared = 0
    if len(found) < 2:
        return tuple(found)
    work.spend(sum(map(weight, found)))
    if _are_separate(found):
        work.compared = len(found)
        return tuple(ordered(found))
    common = _common(found)
    if common:
        found = {_without(f, common) for f in found}
    kept = ordered(found)
    while True:
        work.spend(2 * sum(map(weight, kept)))
        before = work.left
        merged = _merged(kept, work)
        absorbed = _absorbed(kept if merged is None else merged, work)
        if merged is None and len(absorbed) == len(kept):
            work.compared = before - work.left
            break
        kept = absorbed
    if common:
        kept = ordered(box({**common, **f.conditions}) for f in kept)
    return tuple(kept)


def _are_separate(filters: set[Filter]) -> bool:
    """Whether each filter constrains one attribute, of its own: then there is nothing to merge or absorb."""
    names: set[str] = set()
    for f in filters:
        if len(f.conditions) != 1:
            return False
        names.update(f.conditions)
    return len(names) == len(filters)


def _without(f: Filter, common: dict[str, ValueSet]) -> Filter:
    return ordered_box({name: states for name, states in f.conditions.items() if name not in common})


def _common(filters: set[Filter]) -> dict[str, ValueSet]:
    """The conditions that all filters share: as they decide nothing, they need not be compared."""
    shared = dict(min(filters, key=lambda f: len(f.conditions)).conditions)
    for f in filters:
        known = f.conditions
        shared = {name: states for name, states in shared.items() if known.get(name) == states}
        if not shared:
            break
    return shared


def ordered(filters: Iterable[Filter]) -> list[Filter]:
    """The filters in their order."""
    # There are far fewer value sets than conditions in what has been expanded.
    keys: dict[ValueSet, tuple[object, ...]] = {}

    def key(f: Filter) -> tuple[object, ...]:
        items = []
        for name, states in f.conditions.items():
            known = keys.get(states)
            if known is None:
                known = keys[states] = states.sort_key()
            items.append((name, known))
        return len(items), items

    return sorted(filters, key=key)


def _absorbed(filters: list[Filter], work: Work) -> list[Filter]:
    """Without the filters that another one covers."""
    if ALWAYS in filters:
        return [ALWAYS]
    shelves = Shelves(filters)
    return [f for f in filters if not shelves.has_cover(f, work)]


def _merged(filters: list[Filter], work: Work) -> list[Filter] | None:
    """With filters united that differ in one attribute only, one attribute after the other, by name.

    None if there are none.
    """
    alive = dict(enumerate(filters))
    # What a filter asks for, as a number from which one attribute can be taken away again.
    sums = {at: _sum(f) for at, f in alive.items()}
    having: dict[str, list[int]] = defaultdict(list)
    for at, f in alive.items():
        for name in f.conditions:
            having[name].append(at)
    changed = False
    for name in sorted(name for name, some in having.items() if len(some) > 1):
        alike: dict[tuple[int, int], list[int]] = defaultdict(list)
        for at in having[name]:
            if at in alive:
                conditions = alive[at].conditions
                alike[len(conditions), sums[at] ^ hash((name, conditions[name]))].append(at)
        for some in alike.values():
            if len(some) > 1:
                changed |= _unite_alike(name, some, alive, sums, work)
    return ordered({*alive.values()}) if changed else None


def _sum(f: Filter) -> int:
    total = 0
    for item in f.conditions.items():
        total ^= hash(item)
    return total


def _unite_alike(
    name: str, some: list[int], alive: dict[int, Filter], sums: dict[int, int], work: Work
) -> bool:
    """Unite filters that seem to differ in one attribute only, where they do; whether any was."""
    groups: dict[frozenset[tuple[str, ValueSet]], list[int]] = defaultdict(list)
    changed = False
    for at in some:
        work.spend(1 + len(alive[at].conditions) // 2)
        groups[frozenset(item for item in alive[at].conditions.items() if item[0] != name)].append(at)
    for group in groups.values():
        if len(group) > 1:
            sets = [alive[at].conditions[name] for at in group]
            united = unite(sets, work)
            if {*united} == {*sets}:
                continue
            changed = True
            first = alive[group[0]]
            for at in group:
                del alive[at]
            # As many as before at the most: each takes the place of one that had the same names.
            for at, states in zip(group, united, strict=False):
                alive[at] = first.replace(name, states)
                sums[at] = _sum(alive[at])
    return changed


def unite(sets: list[ValueSet], work: Work) -> list[ValueSet | None]:
    """The union of value sets of one attribute in as few as can be; None for "anything or absent"."""
    if EXISTS in sets:
        return [None] if ABSENT in sets else [EXISTS]
    alike: dict[tuple[object, ...], list[ValueSet]] = defaultdict(list)
    for states in sets:
        alike[int(states.kind), states.required, states.forbidden].append(states)
    united = [
        group[0]
        if len(group) == 1
        else of_cuts(
            group[0].kind, cuts.union_all([s.cuts for s in group]), group[0].required, group[0].forbidden
        )
        for group in alike.values()
    ]
    return [states for one in united if (states := _trimmed(one, united, work)).cuts]


def _trimmed(states: ValueSet, others: list[ValueSet], work: Work) -> ValueSet:
    """Plain string intervals without those that lie within a set with patterns.

    So `x in ('a', 'z') or x like '%z'` has one form, however it was put together.
    """
    if states.kind is not Family.STRING or states.required or states.forbidden:
        return states
    patterned = [other for other in others if other.required or other.forbidden]
    if not patterned:
        return states
    work.spend((1 + len(states.cuts) // 2) * sum(1 + weight_of_patterns(other) for other in patterned))
    pieces = [
        piece
        for piece in cuts.intervals(states.cuts)
        if not any(other.covers(ValueSet(Family.STRING, cuts.from_intervals([piece]))) for other in patterned)
    ]
    return ValueSet(Family.STRING, cuts.from_intervals(pieces))
