"""Covered rules: rules that a set could do without, because another rule matches all their events.

An index (`cover_index`) finds the rules that may cover a rule, and `covers` decides. The most general rules
are indexed first. A rule that they cover is dropped from later rounds, so a chain of rules, each covering
the next, is not compared pair by pair.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from penstock.errors import PenstockError
from penstock.filters.parsing import Language, PredicateLike, as_predicate, parse
from penstock.filters.predicate import Predicate
from penstock.filters.relations import covers
from penstock.filters.valuesets import ValueSet
from penstock.matching.cover_index import CoverIndex, inner_of

_FIRST: Final = 2_048
"""Rules of the first round; the most general ones, by the number of their constraints."""

_GROWTH: Final = 16
"""How many times as many rules each further round has."""

_SPREAD: Final = 0x9E3779B1
"""Multiplied with a number, it scatters neighbours."""


def covered_rules(rules: Sequence[PredicateLike], language: Language = "sql") -> list[int | None]:
    """For each rule the number of another rule that covers it, or None if no rule is known to.

    The named rule is itself uncovered. So all covered rules can be deleted together, and the rest still
    matches the same events. Of rules that say the same, the first covers the others. A rule that matches
    nothing is never reported, and covers nothing.

    The cost for n rules is about that of compiling a matcher with n filters and matching n events: n log n.
    Each pair of rules that the index cannot tell apart costs a call of `covers` besides.
    """
    predicates = []
    for number, rule in enumerate(rules):
        try:
            predicates.append(parse(rule, language) if isinstance(rule, str) else as_predicate(rule))
        except PenstockError as error:
            raise error.in_row(number) from None
    first: dict[Predicate, int] = {}
    above: list[int | None] = [None] * len(predicates)
    for number, predicate in enumerate(predicates):
        if predicate.satisfiable:
            known = first.setdefault(predicate, number)
            if known != number:
                above[number] = known
    _find_covers(predicates, _in_order(predicates, list(first.values())), above)
    return [_topmost(number, above) for number in range(len(above))]


def _in_order(predicates: Sequence[Predicate], different: list[int]) -> list[int]:
    """Rules with few constraints first; of those with as many, neighbours apart."""

    def key(number: int) -> tuple[int, int]:
        fewest = min(len(f.conditions) for f in predicates[number].filters)
        return fewest, number * _SPREAD & 0xFFFFFFFF

    return sorted(different, key=key)


def _find_covers(predicates: Sequence[Predicate], left: list[int], above: list[int | None]) -> None:
    """Note a cover of each rule that has one; of rules that cover each other the first stays."""
    size, done = _FIRST, 0
    while done < len(left):
        # Those not looked into yet, of which none covers what has been dropped.
        chunk = left[done : done + size]
        if done + size < len(left):
            # What others of the chunk cover is not looked for again among all rules.
            chunk = _uncovered(predicates, chunk, chunk, above)
        left = left[:done] + chunk + left[done + size :]
        rest = _uncovered(predicates, left, chunk, above)
        kept = {*rest}
        done = sum(number in kept for number in left[: done + len(chunk)])
        left = rest
        size *= _GROWTH


def _uncovered(
    predicates: Sequence[Predicate], specials: list[int], generals: list[int], above: list[int | None]
) -> list[int]:
    """The specials that have to be looked into further: not those that one of the generals covers.

    A covered rule with patterns stays. Covering is only sound with patterns: what the rule covers need not be
    known to be covered by what covers the rule.
    """
    index = CoverIndex([predicates[number] for number in generals])
    asking = [number for number in specials if above[number] is None]
    for special, found in zip(asking, index.candidates(map(predicates.__getitem__, asking)), strict=True):
        above[special] = _cover_of(predicates, special, (generals[at] for at in found.tolist()))
    return [number for number in specials if above[number] is None or not is_exact(predicates[number])]


def _cover_of(predicates: Sequence[Predicate], special: int, candidates: Iterator[int]) -> int | None:
    """One of the candidates that covers a rule."""
    mine = predicates[special]
    for number in candidates:
        if number != special and covers(predicates[number], mine):
            if number > special and covers(mine, predicates[number]):
                continue
            return number
    return None


def is_exact(predicate: Predicate) -> bool:
    """Whether all that it covers is known to be covered by what is known to cover it."""
    return len(predicate.filters) < 2 and not any(
        f.clauses or any(_has_patterns(name, states) for name, states in f.conditions.items())
        for f in predicate.filters
    )


def _has_patterns(name: str, states: ValueSet) -> bool:
    inner = inner_of(name, states)
    if inner is not None:
        return any(asked.required or asked.forbidden for asked in inner.values())
    return bool(states.required or states.forbidden)


def _topmost(number: int, above: list[int | None]) -> int | None:
    """The last of a chain of covers, which is noted for all of it; of a circle, the first rule stays."""
    path = [number]
    seen = {number}
    top = number
    while (following := above[top]) is not None:
        if following in seen:
            # Rules that say the same, without being known to.
            circle = path[path.index(following) :]
            top = min(circle)
            above[top] = None
            break
        top = following
        path.append(top)
        seen.add(top)
    for one in path:
        if one != top:
            above[one] = top
    return above[number]
