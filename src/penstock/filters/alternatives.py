"""Alternatives of an expression that no event can match: `x > 1 and x < 0` in `(x > 1 and x < 0) or y = 2`.

The canonical form drops them, so only the expression shows them. An alternative is seen together with the
conditions that hold beside it: of `x > 5 and (x < 3 or y = 2)` the first can never match either.
"""

from collections.abc import Iterator

from penstock.errors import PenstockError
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And, Expression, Not, Or, normalise


def dead_alternatives(expression: Expression) -> Iterator[Expression]:
    """The alternatives that can never match, without `not`; of those that stand within one another the whole.

    Of an expression that never matches at all, none need be found. What takes too long to tell is left out.
    """
    yield from _dead(_positive(expression, False), ())


def _positive(expression: Expression, negated: bool) -> Expression:
    """The expression with `not` pushed to the constraints."""
    if isinstance(expression, Not):
        return _positive(expression.part, not negated)
    if isinstance(expression, Constraint):
        return expression.negated() if negated else expression
    parts = [_positive(part, negated) for part in expression.parts]
    return Or(parts) if isinstance(expression, Or) is not negated else And(parts)


def _dead(expression: Expression, beside: tuple[Constraint, ...]) -> Iterator[Expression]:
    """The same for what stands beside some conditions, which must hold too."""
    if isinstance(expression, Or):
        for part in expression.parts:
            if _is_dead(part, beside):
                yield part
            else:
                yield from _dead(part, beside)
    elif isinstance(expression, And):
        here = (*beside, *(part for part in expression.parts if isinstance(part, Constraint)))
        for part in expression.parts:
            yield from _dead(part, here)


def _is_dead(part: Expression, beside: tuple[Constraint, ...]) -> bool:
    if isinstance(part, Constraint) and all(one.attribute != part.attribute for one in beside):
        return not part.states.cuts
    try:
        return not normalise(And([*beside, part])).satisfiable
    except PenstockError:
        return False
