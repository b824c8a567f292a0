"""Boolean expressions over constraints: what every language parses into and prints from.

`normalise` brings an expression into a `Predicate`: `not` is pushed to the leaves, where each operator
has its opposite, and `and` over `or` is multiplied out, bottom up, so that what can be merged is merged
before it multiplies.
"""

from collections.abc import Sequence

import msgspec

from penstock.errors import FilterError, LimitError
from penstock.filters.constraint import Constraint
from penstock.filters.disjunction import Work, canonical
from penstock.filters.filter import Filter
from penstock.filters.predicate import Predicate, of_canonical, within_limit
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


def normalise(expression: Expression) -> Predicate:
    """The predicate that the expression says."""
    kind = type(expression)
    if kind is Constraint:
        leaf = Filter((expression,))  # type: ignore[arg-type]
        return of_canonical((leaf,) if leaf.satisfiable else ())
    if kind is And and all(type(part) is Constraint for part in expression.parts):  # type: ignore[union-attr]
        leaf = Filter(expression.parts)  # type: ignore[union-attr, arg-type]
        return of_canonical((leaf,) if leaf.satisfiable else ())
    return of_canonical(within_limit(_filters(expression, False, Work(), 0)))


def _filters(expression: Expression, negated: bool, work: Work, depth: int) -> tuple[Filter, ...]:
    """The canonical disjunction of an expression, or of its opposite."""
    if isinstance(expression, Constraint):
        leaf = Filter((_signed(expression, negated),))
        return (leaf,) if leaf.satisfiable else ()
    if isinstance(expression, Not):
        return _filters(expression.part, not negated, work, depth + 1)
    if not isinstance(expression, And | Or):
        raise FilterError(f"an expression has no part of type {type(expression).__name__}")
    parts = _flat(expression, negated, depth)
    if _is_or(expression, negated):
        filters = [f for part, opposite in parts for f in _filters(part, opposite, work, depth + 1)]
        return within_limit(canonical(filters, work))
    # The constraints of a conjunction first: they are one filter, and narrow what the rest multiplies.
    leaves = [_signed(part, opposite) for part, opposite in parts if isinstance(part, Constraint)]
    leaf = Filter(leaves)
    product: tuple[Filter, ...] = (leaf,) if leaf.satisfiable else ()
    factors = {
        _filters(part, opposite, work, depth + 1)
        for part, opposite in parts
        if not isinstance(part, Constraint)
    }
    # Merging on the way is greedy: the order of the factors must not come from the text.
    for factor in sorted(factors, key=lambda filters: [f.sort_key() for f in filters]):
        work.spend(len(product) * len(factor))
        both = [left.intersection(right) for left in product for right in factor]
        product = within_limit(canonical(both, work))
        if not product:
            break
    return product


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
