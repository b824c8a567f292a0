"""Each event is taken once; and once more each time that it is sent again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.seen import Marked, Seen

blocks = st.lists(st.sets(st.integers(1, 300), min_size=1).map(sorted), max_size=20)


@pytest.mark.property
@given(blocks)
def test_a_number_of_an_origin_is_new_once(drawn: list[list[int]]) -> None:
    seen, known = Seen(), set[int]()
    for numbers in drawn:
        assert seen.add("o", np.array(numbers)).tolist() == [number not in known for number in numbers]
        known |= set(numbers)
        assert seen.top("o") == max(known)


@pytest.mark.property
@given(st.lists(st.tuples(st.integers(1, 3), st.sets(st.integers(1, 9), min_size=1).map(sorted))))
def test_a_number_is_new_once_under_each_mark(drawn: list[tuple[int, list[int]]]) -> None:
    marked, known = Marked(), set[tuple[int, int]]()
    for mark, numbers in drawn:
        new = marked.add("o", mark, np.array(numbers))
        assert new.tolist() == [(mark, number) not in known for number in numbers]
        known |= {(mark, number) for number in numbers}


def test_only_so_many_marked_numbers_are_remembered() -> None:
    marked = Marked(most=2)
    for number in (1, 2, 3):
        assert marked.add("o", 7, np.array([number])).tolist() == [True]
    assert marked.add("o", 7, np.array([1, 3])).tolist() == [True, False]
