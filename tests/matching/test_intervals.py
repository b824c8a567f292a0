"""The nearest intervals that hold another, against comparing all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.matching import intervals
from penstock.matching.intervals import nearest_holding

pytestmark = pytest.mark.usefixtures("warm_kernels")

ENDS = st.tuples(
    st.sampled_from([float("-inf"), 0.0, 1.0, 2.0, 3.0, 4.0]),
    st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0, float("inf")]),
)
Interval = tuple[float, float]


def holds(a: Interval, b: Interval) -> bool:
    return a[0] <= b[0] and a[1] >= b[1]


def by_pairs(known: list[Interval], asked: Interval, own: int) -> set[int]:
    above = [at for at, one in enumerate(known) if at != own and holds(one, asked)]
    return {at for at in above if not any(at != other and holds(known[at], known[other]) for other in above)}


def columns(given_intervals: list[Interval]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.array([(low, -high) for low, high in given_intervals]).reshape(-1, 2).T


@given(st.lists(ENDS, unique=True, max_size=20), st.lists(ENDS, max_size=8), st.sampled_from([0, 2]))
def test_they_are_those_of_comparing_all_pairs(
    known: list[Interval], others: list[Interval], room: int
) -> None:
    asked, own = [*known, *others], [*range(len(known)), *(-1 for _ in others)]
    with pytest.MonkeyPatch.context() as patch:
        # With little room the kernel ends early, and goes on.
        patch.setattr(intervals, "_ROOM", room)
        offsets, found = nearest_holding(columns(known), columns(asked), np.array(own, np.int64))
    for at, (one, place) in enumerate(zip(asked, own, strict=True)):
        some = found[offsets[at] : offsets[at + 1]].tolist()
        assert len(some) == len({*some})
        assert {*some} == by_pairs(known, one, place)
