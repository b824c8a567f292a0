"""A bag answers as if each of its members were asked, however many there are and however they came."""

from operator import le

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.predicate import Predicate
from penstock.routing import bag as bag_module
from penstock.routing.bag import SMALL, Bag, Member
from penstock.routing.frontier import innermost, outermost
from penstock.routing.shape import may_cover, shape_of
from routing_cases import COMPLETE, RANGES, ranges

pytestmark = pytest.mark.property

FLOATS = st.one_of(st.integers(0, 5).map(float), st.sampled_from((float("-inf"), float("inf"))))


def agrees(bag: Bag[Member], members: list[Member], probe: Predicate) -> None:
    shape = shape_of(probe)
    assert set(bag.may_cover(shape)) == {m for m in members if may_cover(m.shape, shape)}
    assert set(bag.may_be_covered(shape)) == {m for m in members if may_cover(shape, m.shape)}
    assert set(bag) == set(members)
    assert len(bag) == len(members)


@given(
    st.lists(st.one_of(ranges("xy"), ranges("xy"), COMPLETE), min_size=12, max_size=4 * SMALL),
    st.lists(st.integers(0, 1000), min_size=1, max_size=2 * SMALL),
    st.lists(st.one_of(RANGES, COMPLETE), min_size=5, max_size=10),
    st.sampled_from((2, SMALL)),
)
def test_a_bag_answers_as_its_members_do(
    made: list[Predicate], leaving: list[int], probes: list[Predicate], small: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # So that a few members are compared as many are.
        patch.setattr(bag_module, "SMALL", small)
        compare_with_members(made, leaving, probes)


def compare_with_members(made: list[Predicate], leaving: list[int], probes: list[Predicate]) -> None:
    bag: Bag[Member] = Bag()
    members = [Member(shape_of(p)) for p in made]
    for member in members:
        bag.add(member)
    for probe in probes:
        agrees(bag, members, probe)
    for i in leaving:
        if members:
            bag.discard(members.pop(i % len(members)))
    for probe in probes:
        agrees(bag, members, probe)


def covers(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(map(le, a, b))


@given(st.integers(1, 3).flatmap(lambda k: st.sets(st.tuples(*[FLOATS] * k), min_size=1, max_size=200)))
def test_the_frontier_is_what_covers_no_other(boxes: set[tuple[float, ...]]) -> None:
    columns = sorted(boxes)
    ends = np.array(columns).T
    below = [b for b in columns if not any(c != b and covers(b, c) for c in columns)]
    above = [b for b in columns if not any(c != b and covers(c, b) for c in columns)]
    assert sorted(columns[i] for i in innermost(ends)) == below
    assert sorted(columns[i] for i in outermost(ends)) == above


def test_the_frontier_of_many_boxes() -> None:
    random = np.random.default_rng(1)
    ends = random.random((4, 3000))
    found = set(innermost(ends).tolist())
    for i in range(0, 3000, 7):
        covering = (ends[:, [i]] <= ends).all(axis=0).sum() > 1
        assert (i in found) is not covering
