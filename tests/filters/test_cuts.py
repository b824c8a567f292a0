"""Sets as cuts against Python's sets, over a domain of eight values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters import cuts
from penstock.filters.cuts import Cuts

pytestmark = pytest.mark.property

DOMAIN = range(8)
CUTS = st.sets(st.sampled_from(DOMAIN)).map(lambda found: tuple(sorted(found)))


def members(cut: Cuts) -> set[int]:
    return {value for value in DOMAIN if cuts.contains(cut, value)}


@given(CUTS, CUTS)
def test_operations_are_those_of_sets(a: Cuts, b: Cuts) -> None:
    assert members(cuts.union(a, b)) == members(a) | members(b)
    assert members(cuts.intersection(a, b)) == members(a) & members(b)
    assert members(cuts.difference(a, b, 0)) == members(a) - members(b)
    assert members(cuts.complement(a, 0)) == set(DOMAIN) - members(a)


@given(CUTS, CUTS)
def test_relations_are_those_of_sets(a: Cuts, b: Cuts) -> None:
    assert cuts.covers(a, b) is (members(a) >= members(b))
    assert cuts.overlap(a, b) is bool(members(a) & members(b))


@given(CUTS, CUTS)
def test_equal_sets_are_equal_tuples(a: Cuts, b: Cuts) -> None:
    assert (a == b) is (members(a) == members(b))
    for made in (cuts.union(a, b), cuts.intersection(a, b), cuts.complement(a, 0)):
        assert list(made) == sorted(set(made))


@given(st.lists(CUTS))
def test_many_are_united_at_once(sets: list[Cuts]) -> None:
    made = cuts.union_all(sets)
    assert members(made) == set().union(*map(members, sets))
    assert list(made) == sorted(set(made))


@given(CUTS)
def test_intervals_take_a_set_apart_and_together(a: Cuts) -> None:
    pieces = cuts.intervals(a)
    assert cuts.from_intervals(pieces) == a
    assert {v for start, end in pieces for v in DOMAIN if v >= start and (end is None or v < end)} == members(
        a
    )
