"""Clauses that are kept: conjunctions of disjunctions that would become too many filters.

`not (a = 1 and b = 1)` is the clause `a != 1 or b != 1`. Forty such clauses on different attributes have no
disjunction of filters that anybody could store: it has 2 to the power of 40. They stay clauses of one filter.
Events are matched with that filter as it stands; relations give sound answers about it.

Whether clauses are expanded or kept depends on them alone: on a trial with a budget of its own, the same
in every process and for every caller. So what is printed is read as the same predicate everywhere. To that
end clauses have one form. Each is a canonical disjunction of single conditions. What follows from the
filter's own conditions is taken out of them, as it is before an expansion. Clauses of larger filters are
multiplied out the other way: `(a and b) or c` is `(a or c) and (b or c)`.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import chain, product
from math import prod
from typing import Final

from penstock.errors import LimitError
from penstock.filters.disjunction import canonical
from penstock.filters.expansion import expand, propagated
from penstock.filters.filter import Clause, Filter, box, check_size, with_clauses
from penstock.filters.work import Work, crossing, weight
from penstock.model.limits import CLAUSES_MAX, DISJUNCTS_MAX, EXPANSION_WORK_MAX

_MULTIPLIED: Final = 16
"""Filters that factors may multiply out to; with more they are expanded, or kept."""

_TRIAL: Final = EXPANSION_WORK_MAX // 2
"""Steps that the expansion of clauses may take. Past it they are kept. Half of what a text may cost: enough
to expand 250 excluded pairs, and whoever keeps clauses has the other half left to read the text."""

_EACH: Final = 8
"""Steps that bringing a clause into its place takes, beside what is counted for what it says."""

_TRIED: Final = 256
"""Clauses of which an expansion is tried: with more, even one that adds a filter for each takes too long."""


def conjunction(leaf: Filter, factors: Collection[tuple[Filter, ...]], work: Work) -> tuple[Filter, ...]:
    """The canonical disjunction of one filter and several disjunctions, all of which must hold.

    It is a filter with clauses where it would be too many without. The leaf has no clauses.
    """
    are_plain = not any(f.clauses for factor in factors for f in factor)
    if are_plain and _are_few(factors):
        return _multiplied(leaf, factors, work)
    if len(factors) == 1 and not are_plain:
        (factor,) = factors
        return _narrowed(leaf, factor, work)
    if are_plain and not all(map(_is_clause, factors)):
        found = _tried([(leaf,), *factors], work)
        if found is not None:
            return found
    try:
        clauses = [clause for factor in factors for clause in _clauses_of(factor, work)]
        return _settled(leaf, clauses, work)
    except LimitError as error:
        if error.limit_name != "CLAUSES_MAX" or not are_plain:
            raise
    return expand([(leaf,), *factors], work)


def _are_few(factors: Collection[tuple[Filter, ...]]) -> bool:
    """Whether factors are multiplied out: where they become few, or a single one becomes no more."""
    return len(factors) < 2 or prod(map(len, factors)) <= _MULTIPLIED


def _multiplied(leaf: Filter, factors: Collection[tuple[Filter, ...]], work: Work) -> tuple[Filter, ...]:
    """The canonical disjunction of one filter and a few disjunctions, all without clauses."""
    if len(factors) == 1 and len(next(iter(factors))) > _MULTIPLIED:
        return expand([(leaf,), *factors], work)
    made: tuple[Filter, ...] = (leaf,)
    # Merging on the way is greedy: the order of the factors must not come from the text.
    for factor in sorted(factors, key=lambda filters: [f.sort_key() for f in filters]):
        work.spend(sum(crossing(left, right) for left in made for right in factor))
        made = canonical((left.intersection(right) for left in made for right in factor), work)
        if not made:
            break
    return made


def _narrowed(leaf: Filter, factor: tuple[Filter, ...], work: Work) -> tuple[Filter, ...]:
    """The canonical disjunction of one filter and a disjunction, both of which must hold."""
    work.spend(sum(crossing(f, leaf) for f in factor))
    both = [f for f in (f.intersection(leaf) for f in factor) if f.satisfiable]
    return canonical([one for f in both for one in (settled(f, work) if f.clauses else (f,))], work)


def settled(f: Filter, work: Work) -> tuple[Filter, ...]:
    """The filters that a filter with clauses is, in canonical form: itself, if its clauses are to be kept."""
    return _settled(f.without_clauses(), f.clauses, work)


@lru_cache(maxsize=1_024)
def steps_of(f: Filter) -> int:
    """The steps that a filter's clauses take when it is read."""
    work = Work(10 * EXPANSION_WORK_MAX)
    settled(f, work)
    return work.kept


def _settled(leaf: Filter, clauses: Iterable[Clause], work: Work) -> tuple[Filter, ...]:
    given: set[Clause] = {*clauses}
    before = work.left
    while True:
        if len(given) > CLAUSES_MAX:
            raise LimitError(f"a filter has {len(given):,} clauses", "CLAUSES_MAX", CLAUSES_MAX)
        work.spend(_EACH * len(given))
        known = {frozenset(clause): clause for clause in given}
        certain, rest = propagated(frozenset({frozenset((leaf,)), *known}), work)
        if not certain.satisfiable:
            return ()
        # What is certain may have taken away what told two conditions on one attribute apart.
        narrowed = {known.get(clause) or canonical(clause, work) for clause in rest}
        narrowed = {clause for clause in narrowed if all(f.conditions for f in clause)}
        if certain == leaf and narrowed == given:
            break
        leaf, given = certain, narrowed
    if _are_few(given):
        work.compared = 0
        return _multiplied(leaf, given, work)
    found = _tried([(leaf,), *given], work) if len(given) <= _TRIED else None
    if found is not None:
        return found
    for f in (leaf, *chain.from_iterable(given)):
        check_size(f.conditions)
    # Reading it again takes no more than making it.
    work.kept += before - work.left
    return (with_clauses(leaf.conditions, given),)


def _tried(factors: Collection[tuple[Filter, ...]], work: Work) -> tuple[Filter, ...] | None:
    """What factors become when they are expanded; None if that is too much.

    What is too much does not depend on whose work this is, and how much of it has been done: that would
    refuse the whole.
    """
    trial = Work(min(_TRIAL, work.left), strict=True, pace=work.pace)
    found: tuple[Filter, ...] | None = None
    try:
        found = expand(factors, trial)
        for f in found:
            check_size(f.conditions)
        trial.check_readable(found)
        if len(found) > DISJUNCTS_MAX:
            found = None
    except LimitError:
        found = None
        if trial.limit < _TRIAL and trial.left < 0:
            # Somebody who had more left might have expanded it.
            work.spend(trial.limit + 1)
    work.spend(trial.spent)
    work.compared = trial.compared
    return found


def _is_clause(factor: tuple[Filter, ...]) -> bool:
    return all(len(f.conditions) == 1 and not f.clauses for f in factor)


def _clauses_of(factor: tuple[Filter, ...], work: Work) -> list[Clause]:
    """The clauses that say what a disjunction of filters says."""
    if _is_clause(factor):
        return [factor]
    choices = [_parts_of(f) for f in factor]
    count = prod(map(len, choices))
    if count > CLAUSES_MAX:
        raise LimitError("a filter has too many clauses", "CLAUSES_MAX", CLAUSES_MAX)
    work.spend(count * len(factor) + sum(map(weight, factor)))
    made = (canonical({f for part in chosen for f in part}, work) for chosen in product(*choices))
    return [clause for clause in made if all(f.conditions for f in clause)]


def _parts_of(f: Filter) -> list[Clause]:
    """What all must hold for a filter to match, as clauses."""
    return [*((box({name: states}),) for name, states in f.conditions.items()), *f.clauses]
