"""Filters with clauses: how to get them from expressions of a few constraints."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import strategies as st

from penstock.filters import clauses, expression
from penstock.filters.constraint import Constraint
from penstock.filters.expression import And, Expression, Or
from strategies import conjunctions


def keep_all(patch: pytest.MonkeyPatch) -> None:
    """Have all clauses kept, though they could be expanded."""
    patch.setattr(clauses, "_TRIAL", 0)
    patch.setattr(expression, "_MULTIPLIED", 1)
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
    clause = st.lists(conjunctions(leaves, 2), min_size=2, max_size=3).map(Or)
    one = st.lists(st.one_of(clause, clause, leaves), min_size=1, max_size=5).map(And)
    return st.one_of(one, st.lists(st.one_of(one, leaves), min_size=2, max_size=3).map(Or))


def independent(count: int) -> str:
    """So many excluded pairs, each of attributes of its own: multiplied out, they are 2 to that power."""
    return "region = 'eu' and " + " and ".join(f"not (a{i} = 1 and b{i} = 1)" for i in range(count))
