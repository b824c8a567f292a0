"""Filters with clauses: how to get them from expressions of a few constraints."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import strategies as st

from brute import constraints
from penstock.filters import clauses
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And, Expression, Or


def keep_all(patch: pytest.MonkeyPatch) -> None:
    """Have all clauses kept, though they could be expanded."""
    patch.setattr(clauses, "_TRIAL", 0)
    patch.setattr(clauses, "_MULTIPLIED", 1)
    clauses.steps_of.cache_clear()


@contextmanager
def keeping() -> Iterator[None]:
    """All clauses are kept here, though they could be expanded."""
    with pytest.MonkeyPatch.context() as patch:
        keep_all(patch)
        yield
    clauses.steps_of.cache_clear()


def clauses_of(leaves: st.SearchStrategy[Constraint]) -> st.SearchStrategy[Expression]:
    """Conjunctions of conditions and clauses, whose alternatives may be conjunctions; or several of these."""
    # A strategy is named by all that it is made of, unless it is deferred.
    return st.deferred(lambda: _clauses_of(leaves))


def _clauses_of(leaves: st.SearchStrategy[Constraint]) -> st.SearchStrategy[Expression]:
    alternative = st.one_of(leaves, leaves, st.lists(leaves, min_size=2, max_size=2).map(And))
    # Alternatives on different attributes: on one they would be a condition.
    clause = st.lists(alternative, min_size=2, max_size=3, unique_by=_names).map(Or)
    one = st.builds(
        lambda some, more: And([*some, *more]),
        st.lists(clause, min_size=2, max_size=4),
        st.lists(leaves, max_size=1),
    )
    return st.one_of(one, st.lists(st.one_of(one, leaves), min_size=2, max_size=3).map(Or))


def _names(said: Expression) -> tuple[str, ...]:
    return tuple(sorted({constraint.attribute for constraint in constraints(said)}))


def independent(count: int) -> str:
    """So many excluded pairs, each of attributes of its own: multiplied out, they are 2 to that power."""
    return "region = 'eu' and " + " and ".join(f"not (a{i} = 1 and b{i} = 1)" for i in range(count))
