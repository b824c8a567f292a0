"""Filters with a constant that no double stands for, such as `x > 0.1000000000000000001`.

Keys of tables tell decimals apart only by the gap that they lie in (`penstock.model.decimals`). A filter that
cuts a gap in two stands in tables as a *widened* one, which has the whole gap, and what that finds is decided
by the filter itself (`penstock.matching.computed`).
"""

from typing import cast

from penstock.filters import cuts
from penstock.filters.filter import NEVER, Filter, box
from penstock.filters.order import After, is_exact, rounded_out, successor
from penstock.filters.valuesets import ValueSet
from penstock.model.decimals import ExactDecimal
from penstock.model.values import Family

_NUMBER = Family.NUMBER


def has_exact(f: Filter) -> bool:
    """Whether a condition of a filter, its clauses left aside, cuts a gap in two."""
    for states in f.conditions.values():
        if states.kind is _NUMBER:
            # As `is_exact`, without the call: filters are loaded by the million.
            for point in states.cuts:
                kind = type(point)
                if kind is ExactDecimal or (kind is After and type(point.value) is ExactDecimal):
                    return True
    return False


def only_inexact(states: ValueSet) -> ExactDecimal | None:
    """If a value set has nothing but single numbers that no double stands for: the first of them."""
    if states.kind is not _NUMBER:
        return None
    pieces = list(cuts.intervals(states.cuts))
    if not all(type(start) is ExactDecimal and end == successor(_NUMBER, start) for start, end in pieces):
        return None
    return cast("ExactDecimal", pieces[0][0]) if pieces else None


def widened(f: Filter) -> Filter:
    """The conditions of a filter without its clauses, with the whole of each gap that they cut in two."""
    if not f.satisfiable:
        return NEVER
    return box({name: _widened(states) for name, states in f.conditions.items()})


def _widened(states: ValueSet) -> ValueSet:
    if states.kind is not _NUMBER or not any(map(is_exact, states.cuts)):
        return states
    pieces = [
        (rounded_out(start, is_end=False), None if end is None else rounded_out(end, is_end=True))
        for start, end in cuts.intervals(states.cuts)
    ]
    whole = cuts.union_all([cuts.from_intervals([piece]) for piece in pieces])
    return ValueSet(_NUMBER, whole)
