"""Merging: fewer filters that match the same events, or a few more (seed paper 000, section 4.4).

Perfect merging is what canonical disjunctions are made by (`disjunction`): filters that differ in one
attribute are united, covered ones absorbed. Imperfect merging replaces two filters by the smallest box
around both, and closes gaps in ranges, as long as the estimated excess stays within a budget. Optimal
merging is NP-complete; this one is greedy, cheapest merger first.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Final

import msgspec

from penstock.errors import FilterError
from penstock.filters import cuts
from penstock.filters.clauses import steps_of
from penstock.filters.disjunction import canonical
from penstock.filters.estimate import Distribution, Estimator, as_distributions
from penstock.filters.filter import Filter, box
from penstock.filters.parsing import PredicateLike, as_predicate
from penstock.filters.predicate import Predicate, of_canonical, within_limit
from penstock.filters.relations import Allowance, covered_by_union, remainder
from penstock.filters.valuesets import ABSENT, EXISTS, ValueSet, of_cuts
from penstock.filters.work import Work
from penstock.model.limits import DISJUNCTS_MAX
from penstock.model.values import Family

_NEIGHBOURS: Final = 24
"""With many filters, each is tried with so many that follow it in their order, not with all."""

_ESTIMATE_WORK: Final = DISJUNCTS_MAX**2 + 800_000
"""Steps for one estimate of a union: enough to see that all of a full predicate's filters are disjoint."""

_ATTEMPTS: Final = 4
"""How often imperfect merging is tried, each time with a quarter of what was allowed before."""


class Merge(msgspec.Struct, frozen=True):
    """What merging gave.

    `predicate` matches every event that one of the merged predicates matches. `perfect`: and no other.
    `excess`: the estimated share, 0 to 1, of the events it matches that none of them asked for.
    """

    predicate: Predicate
    perfect: bool
    excess: float


def merge(
    predicates: Iterable[PredicateLike],
    *,
    budget: float = 0.0,
    distributions: Mapping[str, Distribution | Mapping[Any, float]] | None = None,
) -> Merge:
    """Merge predicates into one of as few filters as can be.

    With the budget 0 the merger is perfect: exactly the union. With a larger one it may let through
    more, up to that estimated share of what it matches, given `distributions` of attributes' values
    where they are known: for each attribute a ValueCounts, a Histogram, or a dict of counts.

    >>> merge(["price between 50 and 100", "price between 90 and 120"]).predicate.to_sql()
    'price between 50 and 120'
    >>> loose = merge(["x = 1 and y = 1", "x = 2 and y = 2"], budget=0.5)
    >>> loose.predicate.to_sql(), loose.perfect
    ('x in (1, 2) and y in (1, 2)', False)
    """
    if not 0 <= budget <= 1:
        raise FilterError(f"a budget is a share between 0 and 1, not {budget!r:.40}")
    if isinstance(predicates, str | Predicate | Filter) or not isinstance(predicates, Iterable):
        raise FilterError("merge takes a list of predicates")
    known = as_distributions(distributions)
    given = [f for predicate in predicates for f in as_predicate(predicate).filters]
    work = Work.on(given)
    whole = canonical(given, work)
    work.kept = sum(steps_of(f) for f in whole if f.clauses)
    work.check_readable(whole)
    # Filters with clauses stay as they are: no box would say what they say.
    union = tuple(f for f in whole if not f.clauses)
    kept = whole[len(union) :]
    if budget == 0 or not union:
        return Merge(of_canonical(within_limit(whole)), perfect=True, excess=0.0)
    estimator = Estimator(within_limit(union), known)
    wanted = _share_of_all(union, (), estimator, at_least=True)
    allowed = budget * wanted / (1 - budget) if budget < 1 else math.inf
    for _ in range(_ATTEMPTS):
        wider = _within(allowed, union, estimator)
        merged = canonical(wider, Work.on(wider))
        excess = _share_of_all(merged, union, estimator)
        if excess <= _hair_above(budget * (wanted + excess)):
            perfect = all(covered_by_union(f, union) for f in merged)
            share = excess / (wanted + excess) if wanted + excess > 0 else 0.0
            if kept:
                merged = canonical((*merged, *kept), Work.on((*merged, *kept)))
            return Merge(of_canonical(within_limit(merged)), perfect=perfect, excess=share)
        # Greedy steps are priced one by one; shares of patterns do not add up exactly.
        allowed /= 4
    return Merge(of_canonical(whole), perfect=True, excess=0.0)


def smallest_box(a: Filter, b: Filter) -> Filter:
    """The smallest filter that covers both, as far as value sets can say it."""
    conditions: dict[str, ValueSet] = {}
    for name, states in a.conditions.items():
        other = b.conditions.get(name)
        hull = None if other is None else _hull(states, other)
        if hull is not None:
            conditions[name] = hull
    return box(conditions)


def _hull(a: ValueSet, b: ValueSet) -> ValueSet | None:
    """A value set that covers both; None where that is anything at all, absence too."""
    union = a.union(b)
    if union is not None:
        return union
    if ABSENT in (a, b):
        return None
    if a.kind is not b.kind:
        return EXISTS
    shared = (
        tuple(p for p in a.required if p in b.required),
        tuple(p for p in a.forbidden if p in b.forbidden),
    )
    return of_cuts(a.kind, cuts.union(a.cuts, b.cuts), *shared)


def _share_of_all(
    filters: Iterable[Filter],
    without: tuple[Filter, ...],
    estimator: Estimator,
    *,
    at_least: bool = False,
) -> float:
    """The estimated share of events that one of the filters matches, and none of those to leave out.

    Overlaps are cut out exactly as long as the steps last. The filters after that are counted in full, or
    with `at_least` not at all.
    """
    allowance = Allowance(_ESTIMATE_WORK)
    seen = list(without)
    share = 0.0
    for f in filters:
        if at_least and allowance.left <= 0:
            break
        share += sum(estimator.share(rest) for rest in remainder(f, seen, allowance))
        seen.append(f)
    return share


def _hair_above(share: float) -> float:
    """A hair more, so that rounding does not decide what a budget allows exactly."""
    return share * (1 + 1e-9)


def _within(allowed: float, union: tuple[Filter, ...], estimator: Estimator) -> list[Filter]:
    """Greedy imperfect merging: pairs first, then gaps in ranges, the cheapest first."""
    kept: dict[int, Filter] = dict(enumerate(union))
    allowed = _hair_above(allowed)
    heap: list[tuple[float, int, int]] = []
    reach = len(union) if len(union) <= 2 * _NEIGHBOURS else _NEIGHBOURS
    for i in kept:
        for j in range(i + 1, min(len(union), i + 1 + reach)):
            heapq.heappush(heap, (_added(kept[i], kept[j], estimator), i, j))
    spent, fresh = 0.0, count(len(union))
    while heap:
        added, i, j = heapq.heappop(heap)
        if i not in kept or j not in kept:
            continue
        if spent + added > allowed:
            break
        spent += added
        merged = smallest_box(kept.pop(i), kept.pop(j))
        at = next(fresh)
        for other in list(kept)[-reach:]:
            heapq.heappush(heap, (_added(kept[other], merged, estimator), other, at))
        kept[at] = merged
    return _close_gaps(list(kept.values()), allowed - spent, estimator)


def _added(a: Filter, b: Filter, estimator: Estimator) -> float:
    """The estimated share that the box around two filters adds to them."""
    both = estimator.share(a) + estimator.share(b) - estimator.share(a.intersection(b))
    return max(0.0, estimator.share(smallest_box(a, b)) - both)


def _close_gaps(filters: list[Filter], allowed: float, estimator: Estimator) -> list[Filter]:
    """Close gaps between ranges of numbers or times while that stays within what is allowed."""
    gaps = sorted(
        (estimator.share(f.replace(name, gap)), at, name, gap.cuts)
        for at, f in enumerate(filters)
        for name, states in f.conditions.items()
        for gap in _gaps(states)
    )
    closed = list(filters)
    for _price, at, name, gap in gaps:
        states = closed[at].conditions[name]
        # The price has risen where gaps of the same filter's other attributes have been closed.
        added = estimator.share(closed[at].replace(name, ValueSet(states.kind, gap)))
        if added > allowed:
            break
        allowed -= added
        closed[at] = closed[at].replace(name, ValueSet(states.kind, cuts.union(states.cuts, gap)))
    return closed


def _gaps(states: ValueSet) -> Iterator[ValueSet]:
    if states.kind in (Family.NUMBER, Family.TIME):
        inner = states.cuts[1:-1] if len(states.cuts) % 2 == 0 else states.cuts[1:]
        for gap in cuts.intervals(inner):
            yield ValueSet(states.kind, cuts.from_intervals([gap]))
