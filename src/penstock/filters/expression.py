"""Boolean expressions over constraints: what every language parses into and prints from.

`normalise` brings an expression into a `Predicate`: `not` is pushed to the leaves, where each operator
has its opposite, and `and` over `or` becomes `or` over `and`, bottom up, so that what can be merged is merged
before it multiplies. A few factors are multiplied out, which gives the filters that people expect; many are
expanded attribute by attribute (`expansion`), which gives few. What would still be too many stays a filter
with clauses (`clauses`).
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from penstock.errors import FilterError, LimitError
from penstock.filters.clauses import conjunction
from penstock.filters.constraint import Constraint
from penstock.filters.disjunction import canonical, unite
from penstock.filters.filter import NEVER, Filter, box, check_patterns, with_clauses
from penstock.filters.predicate import Predicate, of_canonical, within_limit
from penstock.filters.valuesets import ValueSet, intersection_of
from penstock.filters.work import Work, combining, compiling, size_of, weight
from penstock.model.limits import DEPTH_MAX


class And(msgspec.Struct, frozen=True):
    """True where all parts are; without parts, always."""

    parts: "Sequence[Expression]"


class Or(msgspec.Struct, frozen=True):
    """True where one part is; without parts, never."""

    parts: "Sequence[Expression]"


class Not(msgspec.Struct, frozen=True):
    """The opposite, constraint by constraint: still true only of what is present."""

    part: "Expression"


Expression = Constraint | And | Or | Not


def normalise(expression: Expression, work: Work | None = None) -> Predicate:
    """The predicate that the expression says. Raises LimitError when that takes more work than allowed."""
    work = work or Work.of_size(size(expression))
    if work.strict:
        work.spend(_compiling(expression))
    predicate = _normalised(expression, work)
    work.check_readable(predicate.filters)
    return predicate


def kept(expression: Expression) -> Filter:
    """The filter with clauses that an expression, described from one, says: just as it was, and quickly."""
    parts = expression.parts if isinstance(expression, And) else (expression,)
    conditions = [part for part in parts if isinstance(part, Constraint)]
    # The conditions of one attribute may be a disjunction, too.
    factors = [normalise(part).filters for part in parts if not isinstance(part, Constraint)]
    leaf = _drawn_in(Filter(conditions), [factor[0] for factor in factors if len(factor) == 1], Work())
    return with_clauses(leaf.conditions, (factor for factor in factors if len(factor) > 1))


def size(expression: Expression) -> int:
    """How many constraints an expression has; one with very many values counts for more."""
    if isinstance(expression, And | Or):
        return sum(map(size, expression.parts))
    if isinstance(expression, Not):
        return size(expression.part)
    # Something else is refused where its turn comes.
    return size_of(expression.states) if type(expression) is Constraint else 0


def _compiling(expression: Expression) -> int:
    """The steps of making what finds the regular expressions."""
    if isinstance(expression, And | Or):
        return sum(map(_compiling, expression.parts))
    if isinstance(expression, Not):
        return _compiling(expression.part)
    return compiling(expression.states) if type(expression) is Constraint else 0


def _normalised(expression: Expression, work: Work) -> Predicate:
    if type(expression) is Constraint:
        return of_canonical(_leaf(expression))
    if type(expression) is And and all(type(part) is Constraint for part in expression.parts):
        leaf = _conjunction(expression.parts, work)  # type: ignore[arg-type]
        return of_canonical((leaf,) if leaf.satisfiable else ())
    return of_canonical(within_limit(_filters(expression, False, work, 0)))


def _filters(expression: Expression, negated: bool, work: Work, depth: int) -> tuple[Filter, ...]:
    """The canonical disjunction of an expression, or of its opposite."""
    if isinstance(expression, Constraint):
        return _leaf(_signed(expression, negated))
    if isinstance(expression, Not):
        return _filters(expression.part, not negated, work, depth + 1)
    if not isinstance(expression, And | Or):
        raise FilterError(f"an expression has no part of type {type(expression).__name__}")
    parts = _flat(expression, negated, depth)
    leaves = [_signed(part, opposite) for part, opposite in parts if isinstance(part, Constraint)]
    others = [(part, opposite) for part, opposite in parts if not isinstance(part, Constraint)]
    if _is_or(expression, negated):
        filters = _united(leaves, work)
        filters += [f for part, opposite in others for f in _filters(part, opposite, work, depth + 1)]
        return within_limit(canonical(filters, work))
    # The constraints of a conjunction first: they are one filter, and narrow what the rest multiplies.
    leaf = _conjunction(leaves, work)
    if not leaf.satisfiable:
        return ()
    factors = {_filters(part, opposite, work, depth + 1) for part, opposite in others}
    return _product(leaf, factors, work)


def _leaf(constraint: Constraint) -> tuple[Filter, ...]:
    return (box({constraint.attribute: constraint.states}),) if constraint.states.cuts else ()


def _united(leaves: list[Constraint], work: Work) -> list[Filter]:
    """Filters of one constraint each, those on one attribute united: there are thousands in some texts."""
    by_name: dict[str, list[ValueSet]] = defaultdict(list)
    for leaf in leaves:
        if leaf.states.cuts:
            by_name[leaf.attribute].append(leaf.states)
    return [
        box({} if states is None else {name: states})
        for name, sets in by_name.items()
        for states in (unite(sets, work) if len(sets) > 1 else sets)
    ]


def _conjunction(leaves: Sequence[Constraint], work: Work) -> Filter:
    """One filter. The patterns on an attribute are compared each with each, which is counted."""
    patterns: dict[str, list[ValueSet]] = defaultdict(list)
    for leaf in leaves:
        if leaf.states.required or leaf.states.forbidden:
            patterns[leaf.attribute].append(leaf.states)
    for name, sets in patterns.items():
        check_patterns(name, sets)
        work.spend(combining(sets))
    return Filter(leaves)


def _product(leaf: Filter, factors: set[tuple[Filter, ...]], work: Work) -> tuple[Filter, ...]:
    """The canonical disjunction of one filter and several disjunctions, all of which must hold."""
    if () in factors:
        return ()
    single = [factor[0] for factor in factors if len(factor) == 1]
    leaf = _drawn_in(leaf, single, work)
    factors = {factor for factor in factors if len(factor) > 1}.union(*(f.clauses for f in single))
    if not leaf.satisfiable:
        return ()
    work.compared = 0
    return within_limit(conjunction(leaf, factors, work))


def _drawn_in(leaf: Filter, others: list[Filter], work: Work) -> Filter:
    """One filter of several, all of which must match."""
    conditions: dict[str, list[ValueSet]] = defaultdict(list)
    for f in (leaf, *others):
        for name, states in f.conditions.items():
            conditions[name].append(states)
    work.spend(sum(map(weight, others)))
    made: dict[str, ValueSet] = {}
    for name, sets in conditions.items():
        made[name] = sets[0]
        if len(sets) > 1:
            check_patterns(name, sets)
            work.spend(combining(sets))
            made[name] = intersection_of(sorted(sets, key=ValueSet.sort_key))
    return box(made) if all(states.cuts for states in made.values()) else NEVER


def _signed(constraint: Constraint, negated: bool) -> Constraint:
    return constraint.negated() if negated else constraint


def _is_or(expression: Expression, negated: bool) -> bool:
    return isinstance(expression, And if negated else Or)


def _flat(expression: And | Or, negated: bool, depth: int) -> list[tuple[Expression, bool]]:
    """The parts, each with whether it is negated; parts that are of the same connective taken apart.

    So it does not matter how a chain of `or` was bracketed.
    """
    if depth > DEPTH_MAX:
        raise LimitError("an expression nests too deep", "DEPTH_MAX", DEPTH_MAX)
    connective = _is_or(expression, negated)
    flat: list[tuple[Expression, bool]] = []
    for part in expression.parts:
        opposite, inner = negated, part
        while isinstance(inner, Not):
            opposite, inner = not opposite, inner.part
        if isinstance(inner, And | Or) and _is_or(inner, opposite) is connective:
            flat += _flat(inner, opposite, depth + 1)
        else:
            flat.append((inner, opposite))
    return flat
