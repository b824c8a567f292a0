"""Relations between predicates: covers, overlaps, identical.

Vocabulary and definitions follow seed paper 000 (Salo 2010), section 3.1: a filter covers another when
it matches every event that the other matches; two overlap when some event matches both; they are
identical when each covers the other.

Deciding whether one disjunction covers another is co-NP-complete. Here each filter of the covered side is
cut down by the filters of the covering side, one after the other, until nothing is left or a rest
remains that none of them touches. Within `COVERING_WORK_MAX` steps this is complete wherever value sets
are exact (bool, number, time, ordered and prefix string constraints). Past it, and with suffix, substring
and LIKE patterns, it is sound: a cover may go unnoticed, none is ever claimed falsely.

Filters with clauses (`penstock.filters.clauses`) are compared soundly, not completely. One is covered if its
box is, or if it is covered whichever alternative of one of its clauses holds. It covers what its box covers
and what implies each of its clauses.

Comparing pairs of filters counts towards the limit too. When it is reached, `covers` answers false and
`overlaps` answers true.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from penstock.filters.filter import Clause, Filter, working_box
from penstock.filters.parsing import PredicateLike, as_predicate
from penstock.filters.shelves import Shelves
from penstock.filters.valuesets import ABSENT, EXISTS
from penstock.filters.work import Heft, cutting
from penstock.model.limits import COVERING_WORK_MAX

_FEW: Final = 64
"""So few pairs of filters are compared one by one."""


def covers(f: PredicateLike, g: PredicateLike, allowance: "Allowance | None" = None) -> bool:
    """Whether every event that matches `g` matches `f`; never true unless so (see the module)."""
    f, g = as_predicate(f), as_predicate(g)
    if len(f.filters) == 1 and len(g.filters) == 1 and not g.filters[0].clauses:
        return f.filters[0].covers(g.filters[0])
    allowance = allowance or Allowance()
    if f.filters == g.filters:
        return True
    shelves = Shelves(f.filters) if len(f.filters) * len(g.filters) > _FEW else None
    allowance.spend(len(f.filters))
    return all(_is_covered(special, f.filters, shelves, allowance) for special in g.filters)


def overlaps(f: PredicateLike, g: PredicateLike, allowance: "Allowance | None" = None) -> bool:
    """Whether some event matches both; never false unless none does (see the module)."""
    ours, theirs = as_predicate(f).filters, as_predicate(g).filters
    allowance = allowance or Allowance()
    hefts = [Heft.of(b) for b in theirs]
    for a in ours:
        heft = Heft.of(a)
        is_light = not any(heft)
        for b, other in zip(theirs, hefts, strict=True):
            allowance.left -= 1 if is_light else heft.overlapping(other)
            if allowance.left <= 0 or a.overlaps(b):
                return True
    return False


def identical(f: PredicateLike, g: PredicateLike) -> bool:
    """Whether both match the same events; never true unless so."""
    f, g = as_predicate(f), as_predicate(g)
    return f.filters == g.filters or (covers(f, g) and covers(g, f))


def covered_by_union(
    special: Filter, union: tuple[Filter, ...], allowance: "Allowance | None" = None
) -> bool:
    """Whether the filters together surely cover one filter."""
    return not special.satisfiable or _is_covered(special, union, None, allowance or Allowance())


def _is_covered(
    special: Filter, union: tuple[Filter, ...], shelves: Shelves | None, allowance: "Allowance"
) -> bool:
    if shelves is not None:
        if shelves.has_cover(special, allowance):
            return True
    else:
        heft = Heft.of(special)
        for general in union:
            allowance.spend(Heft.of(general).covering(heft))
            if allowance.left <= 0:
                return False
            if general.covers(special):
                return True
    if allowance.left <= 0:
        return False
    plain = tuple(f for f in union if not f.clauses) if any(f.clauses for f in union) else union
    if len(plain) > 1 and next(remainder(special, plain, allowance), None) is None:
        return True
    return any(_is_clause_covered(special, clause, union, shelves, allowance) for clause in special.clauses)


def _is_clause_covered(
    special: Filter,
    clause: Clause,
    union: tuple[Filter, ...],
    shelves: Shelves | None,
    allowance: "Allowance",
) -> bool:
    """Whether a filter is covered whichever of a clause's alternatives holds."""
    box_alone = special.without_clauses()
    for alternative in clause:
        allowance.spend(2 + len(box_alone.conditions))
        one = box_alone.intersection(alternative)
        if one.satisfiable and not _is_covered(one, union, shelves, allowance):
            return False
    return True


class Allowance:
    """Steps left for comparing filters and cutting boxes; may be shared by several comparisons."""

    def __init__(self, left: int = COVERING_WORK_MAX) -> None:
        self.left = left

    def spend(self, steps: int) -> None:
        """Count steps. Nothing is raised: whoever compares gives the safe answer when none are left."""
        self.left -= steps


def remainder(whole: Filter, parts: Sequence[Filter], allowance: Allowance | None = None) -> Iterator[Filter]:
    """Yield disjoint boxes that make up what is left of a filter without the parts.

    A box may have value sets that no constraint can say (NaN alone). When the allowance is used up, the
    boxes not yet cut are yielded as they are, so that what is yielded is never too little.
    """
    steps = allowance or Allowance()
    hefts = [Heft.of(part) for part in parts]
    steps.left -= len(parts) // 2
    stack = [(whole, 0)]
    while stack:
        box, at = stack.pop()
        heft = Heft.of(box)
        steps.left -= len(box.conditions) // 8
        while at < len(parts) and steps.left > 0 and not parts[at].overlaps(box):
            steps.left -= heft.overlapping(hefts[at])
            at += 1
        if at == len(parts) or steps.left <= 0:
            yield box
            continue
        # Cutting costs more than looking, and a box of many attributes more than one of few.
        steps.left -= heft.overlapping(hefts[at]) + heft.cuts + hefts[at].cuts
        steps.left -= len(parts[at].conditions) * len(box.conditions) // 8
        if heft.patterns and hefts[at].patterns:
            steps.left -= cutting(box, parts[at])
            if steps.left <= 0:
                # It is not begun where it takes more than is left.
                yield box
                continue
        pieces = list(subtract(box, parts[at]))
        steps.left -= len(pieces) * (8 + len(box.conditions))
        stack += [(piece, at + 1) for piece in pieces]


def subtract(box: Filter, part: Filter) -> Iterator[Filter]:
    """Yield disjoint boxes that make up what is in one filter and not in another."""
    for name, states in part.conditions.items():
        known = box.conditions.get(name)
        if known is None:
            # The attribute may be in any state: absent, or present in some way.
            outside = [piece for state in (ABSENT, EXISTS) for piece in state.difference(states)]
            inside = states
        else:
            outside = known.difference(states)
            inside = known.intersection(states)
        for piece in outside:
            yield working_box(box, name, piece)
        box = working_box(box, name, inside)
